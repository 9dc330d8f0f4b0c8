"""Everything one sandbox holds, and how it starts over."""

from __future__ import annotations

import secrets
from pathlib import Path

from cryptography import x509

from entrabot_sandbox import defaults
from entrabot_sandbox.certificates import make_blueprint_certificate, write_private
from entrabot_sandbox.clock import Clock
from entrabot_sandbox.conversations import Conversations
from entrabot_sandbox.directory import AgentIdentity, Directory, Guids, User
from entrabot_sandbox.drive_transfers import Transfers
from entrabot_sandbox.drives import Drives
from entrabot_sandbox.entra import Entra
from entrabot_sandbox.faults import Faults
from entrabot_sandbox.mailbox import Mailboxes
from entrabot_sandbox.recorder import Recorder
from entrabot_sandbox.sign_in_guard import Guard
from entrabot_sandbox.throttle import Throttle
from entrabot_sandbox.tokens import Issuer
from entrabot_sandbox.word_comments import Comments
from entrabot_sandbox.work_iq_servers import write_manifest
from entrabot_sandbox.work_iq_settings import WorkIqSettings


class State:
    """The services' memory. ``base`` is scheme, host and port; ``folder`` holds what must be a file."""

    def __init__(self, base: str, folder: Path) -> None:
        self.base = base
        self.files_origin = base
        self.folder = folder
        self.guids = Guids()
        self.clock = Clock()
        self.recorder = Recorder(self.clock)
        self.faults = Faults()
        self.throttle = Throttle()
        self.issuer = Issuer(self.clock, base)
        self.blueprint_file, self._certificate = self.new_certificate("blueprint")
        self.manifest_file = write_manifest(base, folder)
        self.persona_token = secrets.token_urlsafe(32)
        self.reset()

    def reset(self) -> None:
        """Back to the tenancy and the settings of the start; ids, keys and issued access tokens stay."""
        self.directory: Directory = defaults.build(self.guids, self._certificate)
        self.entra = Entra(self.issuer, self.directory)
        self.sign_in_guard = Guard(self.clock, self.base)
        self.clock.offset = 0.0
        self.conversations = Conversations(self.clock)
        self.mailboxes = Mailboxes(self.clock, self.directory)
        self.drives = Drives(self.clock, self.guids, self.directory)
        self.transfers = Transfers(self.clock, self.drives, self.files_origin)
        self.comments = Comments(self.clock)
        self.work_iq = WorkIqSettings()
        self.persona_text = defaults.PERSONA
        self.ordering_taken = True
        self.federated_addresses = False
        self.issuer.lifetime = None
        self.throttle.reset()
        self.faults.clear()
        self.recorder.clear()

    def set_files_origin(self, origin: str) -> None:
        """Say where pre-signed addresses are served."""
        self.files_origin = self.transfers.origin = origin

    @property
    def agent(self) -> AgentIdentity:
        """The agent identity that the environment names."""
        return self.directory.agents[0]

    @property
    def agent_user(self) -> User:
        """The agent's user account."""
        return next(user for user in self.directory.users if user.agent is self.agent)

    def new_certificate(self, name: str) -> tuple[Path, x509.Certificate]:
        """Make a blueprint certificate and write key and certificate to a file only we can read."""
        certificate, pem = make_blueprint_certificate(f"Entrabot sandbox {name}")
        path = self.folder / f"{name}.pem"
        write_private(path, pem)
        return path, certificate

    def delegated(self) -> dict[str, str]:
        """What a program needs for people to sign in to it themselves."""
        client = self.directory.clients[0]
        return {"client_id": client.app_id, "authority": f"{self.base}/{client.tenant.id}"}

    def environment(self, ca_file: Path) -> dict[str, str]:
        """The settings that a server needs to live in this tenant."""
        agent, user = self.agent, self.agent_user
        local = "127.0.0.1,localhost,::1"
        return {
            "ENTRABOT_TENANT_ID": agent.tenant.id,
            "ENTRABOT_BLUEPRINT_APP_ID": agent.blueprint.app_id,
            "ENTRABOT_AGENT_ID": agent.app_id,
            "ENTRABOT_AGENT_OBJECT_ID": agent.object_id,
            "ENTRABOT_AGENT_USER_ID": user.id,
            "ENTRABOT_AGENT_UPN": user.upn,
            "ENTRABOT_BLUEPRINT_CERT_FILE": str(self.blueprint_file),
            "ENTRABOT_LOGIN_URL": self.base,
            "ENTRABOT_GRAPH_URL": self.base,
            "ENTRABOT_CA_BUNDLE": str(ca_file),
            "ENTRABOT_DATA_DIR": str(self.folder / "data"),
            "ENTRABOT_LOG_DIR": str(self.folder / "logs"),
            "ENTRABOT_AUDIT_DIR": str(self.folder / "audit"),
            "ENTRABOT_A365_TOOLING_MANIFEST": str(self.manifest_file),
            "NO_PROXY": local,
            "no_proxy": local,
        }
