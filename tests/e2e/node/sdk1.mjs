// An MCP host on the official TypeScript SDK 1.x. Takes {"command", "args", "env"} as its argument, prints one JSON
// document a line: what it connected to, then the first channel push.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { z } from "zod";

const { command, args, env } = JSON.parse(process.argv[2]);
const print = (value) => console.log(JSON.stringify(value));
const Push = z.object({
  method: z.literal("notifications/claude/channel"),
  params: z.object({ content: z.string(), meta: z.record(z.string()) }).strict(),
});

const client = new Client({ name: "claude-code", version: "1.0" });
const pushed = new Promise((resolve) => client.setNotificationHandler(Push, ({ params }) => resolve(params)));
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
