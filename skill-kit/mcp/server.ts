/** Tools as an MCP server, without a transport. */
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js';
import {
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
  type ServerNotification,
  type ServerRequest,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js';
import { createBrokenReply } from './skill-tools.ts';
import type { ToolReply, ToolSet, ToolSpec } from './tool-set.ts';

export interface McpServerOptions {
  /** How often a client that asked for it hears that its call is being worked on. Default 10 s. */
  readonly progressEveryMs?: number;
  readonly warn?: (message: string) => void;
}

export interface SkillServer {
  readonly server: Server;
  /** Until no call is under way. */
  idle(): Promise<void>;
}

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>;

export function createMcpServer(tools: ToolSet, options: McpServerOptions = {}): SkillServer {
  const { name, version, instructions } = tools;
  const server = new Server({ name, version }, { capabilities: { tools: {} }, instructions });
  const calls = new Set<Promise<unknown>>();
  server.onerror = (error) => options.warn?.(`MCP: ${error.message}`);
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: tools.tools.map(toolOf) }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const spec = tools.tools.find((tool) => tool.name === params.name);
    if (spec === undefined) {
      throw new McpError(
        ErrorCode.InvalidParams,
        `Unknown tool "${params.name}". This server has: ${tools.tools.map((tool) => tool.name).join(', ')}.`,
      );
    }
    const client = server.getClientVersion()?.name;
    const call = callTool(tools, params.name, params.arguments ?? {}, client);
    calls.add(call);
    const stop = reportProgress(extra, options.progressEveryMs ?? 10_000);
    try {
      return await call;
    } finally {
      stop();
      calls.delete(call);
    }
  });
  return {
    server,
    async idle() {
      while (calls.size > 0) await Promise.all(calls);
    },
  };
}

/** Never rejects: an error that is a result reaches the model, and can be acted on. */
async function callTool(
  tools: ToolSet,
  tool: string,
  args: Readonly<Record<string, unknown>>,
  client: string | undefined,
): Promise<CallToolResult> {
  try {
    return resultOf(await tools.call(tool, args, client === undefined ? {} : { name: client }));
  } catch (cause) {
    return resultOf(createBrokenReply(tool, cause));
  }
}

function resultOf({ isError, structured, text }: ToolReply): CallToolResult {
  // The reply contains only JSON. A value that JSON cannot express is an error here; an error in the transport would
  // reach no client.
  const json = JSON.stringify(structured);
  return {
    content: [{ type: 'text', text: text ?? json }],
    structuredContent: structured,
    ...(isError ? { isError } : {}),
  };
}

function toolOf({ description, inputSchema, name, outputSchema, readOnly, title }: ToolSpec): Tool {
  const annotations = readOnly
    ? { title, readOnlyHint: true, openWorldHint: false }
    : { title, readOnlyHint: false, destructiveHint: false };
  return { name, title, description, inputSchema, outputSchema, annotations };
}

/** Clients give a call a minute or so, and longer when they hear of it: an action may take its time. */
function reportProgress(extra: Extra, everyMs: number): () => void {
  const progressToken = extra._meta?.progressToken;
  if (progressToken === undefined) return () => undefined;
  let progress = 0;
  const timer = setInterval(() => {
    const sent = extra.sendNotification({
      method: 'notifications/progress',
      params: { progressToken, progress: ++progress },
    });
    // A client that has gone is noticed by its transport.
    sent.catch(() => clearInterval(timer));
  }, everyMs);
  return () => clearInterval(timer);
}
