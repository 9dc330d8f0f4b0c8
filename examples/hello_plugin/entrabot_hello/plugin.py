"""What this plugin offers, and nothing else: read it to know the whole plugin."""

from entrabot_host import BackgroundTask, Gate, Hints, Host, PromptFragment, Tool, hookimpl

from entrabot_hello.greeter import Greeter


@hookimpl
def register_tools(host: Host) -> list[Tool]:
    """One tool. Its parameters, annotations and docstring are what the model sees."""
    return [
        Tool(
            host.shared(Greeter).hello_greet,
            title="Hello: greet",
            hints=Hints(read_only=False, destructive=False, idempotent=False, open_world=False),
        )
    ]


@hookimpl
def background_tasks(host: Host) -> list[BackgroundTask]:
    """One task. The host times it and keeps it alive."""
    return [
        BackgroundTask(
            name="hello-report",
            run=host.shared(Greeter).report,
            interval=3600,
            description="Logs how many people were greeted",
            gate=Gate.ALWAYS,
        )
    ]


@hookimpl
def prompt_fragments(host: Host) -> PromptFragment:
    """What the agent's instructions say about this plugin: short, since it costs the model's context."""
    return PromptFragment(short="Hello: greet people with hello_greet.")
