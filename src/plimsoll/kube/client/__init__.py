"""The client of the Kubernetes API: transport, credentials, TLS, rate limit, retries and typed errors."""
