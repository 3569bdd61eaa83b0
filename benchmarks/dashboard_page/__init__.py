"""What the dashboard's page costs the browser of whoever looks."""
