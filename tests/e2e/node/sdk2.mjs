// The same on the TypeScript client 2.x; a second argument "modern" pins the protocol without a handshake.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { z } from "zod/v4";

const { command, args, env } = JSON.parse(process.argv[2]);
const print = (value) => console.log(JSON.stringify(value));
const params = z.strictObject({ content: z.string(), meta: z.record(z.string(), z.string()) });
const options = process.argv[3] === "modern" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {};

const client = new Client({ name: "claude-code", version: "1.0" }, options);
const pushed = new Promise((resolve) =>
  client.setNotificationHandler("notifications/claude/channel", { params }, (push) => resolve(push)),
);
await client.connect(new StdioClientTransport({ command, args, env }));
const { tools } = await client.listTools();
const me = await client.callTool({ name: "whoami", arguments: {} });
print({
  server: client.getServerVersion(),
  experimental: client.getServerCapabilities().experimental,
  tools: tools.map((tool) => tool.name),
  whoami: JSON.parse(me.content[0].text),
});
print(await pushed);
await client.close();
