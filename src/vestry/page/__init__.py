"""The whole journey in a browser on this machine: `vestry open`. It needs the extra `page`."""
