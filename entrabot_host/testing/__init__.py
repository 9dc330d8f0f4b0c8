"""The test kit for plugin authors: your plugin on the real server loop, with a client connected to it.

Installed with ``pip install 'entrabot-host[testing]'`` and active in every pytest run. The fixtures::

    async def test_greeting(entrabot):                      # runs once in each protocol era
        async with entrabot("hello") as agent:              # installed plugins by name, or modules of your own
            assert await agent.call("greet", name="Ada") == {"greeting": "Hello, Ada!"}

    async def test_in_teams(entrabot, entrabot_tenant):     # a sandbox tenant, started once for the whole run
        async with entrabot("hello", "teams", tenant=entrabot_tenant) as agent:
            chat = await agent.call("create_chat", target_email="alice@contoso.example")

Async tests need ``anyio_mode = "auto"`` in the pytest settings, or ``@pytest.mark.anyio``.
"""
