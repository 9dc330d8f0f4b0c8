"""A local stand-in for the parts of Microsoft Entra and Microsoft Graph that Entrabot uses."""
