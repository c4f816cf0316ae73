/** A client of the protocol's own library, connected in memory, that checks what it gets against the declared schemas. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { onTestFinished } from 'vitest';
import type { ReferenceLoader, SkillDefinition } from '../../../domain/step-machine/definition.ts';
import { MemorySessions, type MemorySessionsOptions } from '../../../skill-kit/mcp/memory-sessions.ts';
import { createMcpServer, type McpServerOptions } from '../../../skill-kit/mcp/server.ts';
import { skillTools, type SkillToolsOptions } from '../../../skill-kit/mcp/skill-tools.ts';
import type { ToolSet } from '../../../skill-kit/mcp/tool-set.ts';

export interface Answer {
  readonly structured: Record<string, unknown>;
  readonly text: string;
  readonly isError: boolean;
}

export interface Rig {
  readonly client: Client;
  call(tool: string, args?: Record<string, unknown>): Promise<Answer>;
}

export const NO_REFS: ReferenceLoader = { load: (name) => `text of ${name}`, asset: (path) => path };

export interface RigOptions extends MemorySessionsOptions, Pick<SkillToolsOptions, 'handshake'>, McpServerOptions {
  readonly clientName?: string;
}

export async function serve(definition: SkillDefinition, options: RigOptions = {}): Promise<Rig> {
  const refs = options.refs ?? NO_REFS;
  const store = new MemorySessions(definition, { ...options, refs });
  const { handshake, now } = options;
  return connect(
    skillTools(definition, {
      store,
      refs,
      ...(handshake === undefined ? {} : { handshake }),
      ...(now === undefined ? {} : { now }),
    }),
    options,
  );
}

export async function connect(
  tools: ToolSet,
  { clientName = 'test', ...options }: McpServerOptions & { readonly clientName?: string } = {},
): Promise<Rig> {
  const { server } = createMcpServer(tools, options);
  const client = new Client({ name: clientName, version: '1' });
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(ours), client.connect(theirs)]);
  onTestFinished(async () => {
    await tools.close();
    await client.close();
  });
  return rigOf(client);
}

export async function rigOf(client: Client): Promise<Rig> {
  // From here on the client checks structured content against the output schemas that it was told.
  await client.listTools();
  return {
    client,
    async call(tool, args = {}) {
      const { content, isError, structuredContent } = (await client.callTool({
        name: tool,
        arguments: args,
      })) as CallToolResult;
      const [item, ...more] = content;
      if (item?.type !== 'text' || more.length > 0 || structuredContent === undefined)
        throw new Error(`not one text item: ${JSON.stringify(content)}`);
      return { structured: structuredContent, text: item.text, isError: isError === true };
    },
  };
}
