"""The one client of Microsoft Graph."""
