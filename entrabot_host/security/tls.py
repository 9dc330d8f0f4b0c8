"""One trust for every client: the operating system's certificate authorities, and the operator's own."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from entrabot_host.errors import SettingsError

if TYPE_CHECKING:
    import requests

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0


def ssl_context(ca_bundle: str) -> ssl.SSLContext:
    """Return a context that trusts the operating system's store and the PEM file ``ca_bundle`` (empty: none).

    Reads files, so call it in a worker thread. Raises `SettingsError` when the file is unusable.
    """
    import truststore

    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_bundle:
        try:
            context.load_verify_locations(ca_bundle)
        except (OSError, ssl.SSLError) as error:
            reason = "it holds no certificate in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
            raise SettingsError(
                f"The file that ENTRABOT_CA_BUNDLE names cannot be used: {reason}.",
                remedy="Name a readable PEM file with the certificate authority of your proxy or stand-in.",
            ) from None
    return context


def requests_session(ca_bundle: str) -> requests.Session:
    """Return a session for MSAL: the same trust, a time limit on every request, redirects refused.

    A redirect raises `requests.exceptions.TooManyRedirects`, because what MSAL sends (assertions, refresh tokens) is
    meant for the sign-in service alone. Proxy variables count; ``.netrc`` does not. Raises `SettingsError`.
    """
    import requests
    from requests.adapters import HTTPAdapter

    context = ssl_context(ca_bundle)

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, **kwargs, ssl_context=context)

        def proxy_manager_for(self, proxy: Any, **kwargs: Any) -> Any:
            return super().proxy_manager_for(proxy, **kwargs, ssl_context=context)

        def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
            """Leave trust to the context: requests would add the authorities it ships with."""
            conn.cert_reqs = "CERT_REQUIRED"
            conn.ca_certs = conn.ca_cert_dir = None

    class Session(requests.Session):
        def request(self, *args: Any, **kwargs: Any) -> requests.Response:
            kwargs["timeout"] = kwargs.get("timeout") or (CONNECT_SECONDS, READ_SECONDS)
            kwargs["allow_redirects"] = False
            response = super().request(*args, **kwargs)
            if response.is_redirect:
                response.close()
                raise requests.exceptions.TooManyRedirects("The sign-in service answered with a redirect; refused.")
            return response

    session = Session()
    session.mount("https://", Adapter())
    session.adapters.pop("http://")  # nothing that MSAL sends may go in the clear
    session.auth = lambda request: request
    return session
