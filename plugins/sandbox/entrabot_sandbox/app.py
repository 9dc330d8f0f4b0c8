"""The web application: Graph, Entra and the control API under their own paths."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import Mount, Route

from entrabot_sandbox.control import Control
from entrabot_sandbox.drive_http import routes as transfer_routes
from entrabot_sandbox.mcp_hosting import Hosting
from entrabot_sandbox.persona import Persona
from entrabot_sandbox.service import CutConnection, Service
from entrabot_sandbox.sign_in import SignIn
from entrabot_sandbox.state import State
from entrabot_sandbox.work_iq_http import routes as work_iq_routes

METHODS = ["GET", "POST", "PATCH", "PUT", "DELETE"]


def make_app(state: State, control_token: str, hosting: Hosting) -> Starlette:
    """The sandbox's ASGI application. hosting: has its MCP servers, and is the caller's to close."""
    service = Service(state)
    discovery = ".well-known/openid-configuration"
    return Starlette(
        routes=[
            Mount("/_control", app=Control(state, control_token).app()),
            Route("/v1.0/{path:path}", service.graph, methods=METHODS),
            Route("/beta/drives/{path:path}", service.graph, methods=METHODS),
            Route("/beta/{path:path}", service.other_version, methods=METHODS),
            Route(f"/{{tenant}}/v2.0/{discovery}", service.discovery, methods=["GET"]),
            Route(f"/{{tenant}}/{discovery}", service.discovery, methods=["GET"]),
            Route("/{tenant}/discovery/v2.0/keys", service.keys, methods=["GET"]),
            Route("/{tenant}/discovery/keys", service.keys, methods=["GET"]),
            *transfer_routes(state, CutConnection),
            *work_iq_routes(state, hosting),
            *Persona(state, hosting).routes(),
            Route("/{tenant}/oauth2/v2.0/token", service.token, methods=["POST"]),
            Route("/{tenant}/oauth2/v2.0/devicecode", service.device_code, methods=["POST"]),
            *SignIn(state, service).routes(),
        ]
    )
