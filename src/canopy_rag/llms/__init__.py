"""Chat models: any OpenAI-compatible server, and a small one in this process."""
