"""The plugin on a real server, with a client connected to it, in both protocol eras."""


async def test_it_greets_and_counts(entrabot):
    async with entrabot("hello") as agent:
        assert await agent.call("hello_greet", name="Ada") == {"greeting": "Hello, Ada!", "times": 1}
        assert await agent.call("hello_greet", name="Ada") == {"greeting": "Hello, Ada!", "times": 2}
