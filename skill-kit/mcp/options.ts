/** Parses the command line of an MCP server. */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { readNamedFile } from '../../files/named-file.ts';
import type { Handshake } from '../../domain/step-machine/definition.ts';
import { toolNames } from '../prompt/agent-hosts.ts';
import { shorten } from '../../domain/units/quote.ts';

export interface McpOptions {
  readonly handshake: Partial<Handshake>;
  readonly maxSessions: number;
  readonly idleMs: number;
  /** Sessions live on a Temporal server instead of in memory. */
  readonly durable: boolean;
  readonly maxMessageBytes?: number;
  /** Null: stdio. */
  readonly http: {
    readonly port: number;
    readonly listen: string;
    readonly allowedHosts: readonly string[];
    readonly token?: string;
  } | null;
}

export const MCP_HELP = `mcp: serves this skill over the Model Context Protocol, on stdio or with --http over HTTP.

  --http <port>           streamable HTTP at /mcp; 0 takes a free port
  --listen <address>      default 127.0.0.1; an address other than loopback needs --token-file
  --token-file <path>     clients must send the token in this file
  --allow-host <name>     another name that clients may use for this server; may be repeated
  --durable               sessions live on a Temporal server and outlive this process; needs Voidbox installed
  --max-sessions <n>      open sessions at the same time; default 100
  --idle-minutes <n>      time after which an idle session ends, unless it is durable; default 60
  --max-message-mib <n>   the largest message of a client; default 16 on stdio, 4 over HTTP
  --host <name>           the agent's host, e.g. claude-code; default: the name that the client sends
  --tools <a,b>           the agent's tools
  --subagent              the agent is a subagent
`;

/** @returns null when the help is asked for @throws {Error} naming the flag that is wrong */
export function parseMcpOptions(argv: readonly string[]): McpOptions | null {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...argv],
    options: {
      http: text,
      listen: text,
      'token-file': text,
      'allow-host': { type: 'string', multiple: true },
      'max-sessions': text,
      'idle-minutes': text,
      'max-message-mib': text,
      host: text,
      tools: text,
      subagent: { type: 'boolean' },
      durable: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help === true) return null;
  const { durable = false, host, 'max-message-mib': maxMessage, subagent, tools } = values;
  return {
    handshake: {
      ...(host === undefined ? {} : { host }),
      ...(tools === undefined ? {} : { toolsAvailable: toolNames(tools) }),
      ...(subagent === undefined ? {} : { isSubagent: subagent }),
    },
    durable,
    maxSessions: count('--max-sessions', values['max-sessions'] ?? '100', 1, 1_000_000),
    idleMs: count('--idle-minutes', values['idle-minutes'] ?? '60', 1, 1_000_000) * 60_000,
    ...(maxMessage === undefined
      ? {}
      : { maxMessageBytes: count('--max-message-mib', maxMessage, 1, 256) * 1024 * 1024 }),
    http: httpOptions(values),
  };
}

interface HttpFlags {
  readonly http?: string;
  readonly listen?: string;
  readonly 'token-file'?: string;
  readonly 'allow-host'?: readonly string[];
}

function httpOptions({ http, ...flags }: HttpFlags): McpOptions['http'] {
  if (http === undefined) {
    const [flag] = (['listen', 'token-file', 'allow-host'] as const).filter((name) => flags[name] !== undefined);
    if (flag !== undefined) throw new Error(`--${flag} has no effect on stdio. Add --http <port>, or leave it out.`);
    return null;
  }
  const tokenFile = flags['token-file'];
  return {
    port: count('--http', http, 0, 65_535),
    listen: flags.listen ?? '127.0.0.1',
    allowedHosts: flags['allow-host'] ?? [],
    ...(tokenFile === undefined ? {} : { token: readToken(tokenFile) }),
  };
}

function readToken(path: string): string {
  const token = tokenIn(path).trim();
  if (token === '' || /\s/.test(token))
    throw new Error(`--token-file ${path}: it must hold one token without white space, and nothing else.`);
  return token;
}

const MOST_TOKEN_BYTES = 64 * 1024;

function tokenIn(path: string): string {
  try {
    return readNamedFile(resolve(path), MOST_TOKEN_BYTES).toString('utf8');
  } catch (cause) {
    throw new Error(`--token-file ${path} cannot be read: ${(cause as Error).message}.`, { cause });
  }
}

function count(flag: string, value: string, min: number, max: number): number {
  const number = Number(value);
  if (/^\d+$/.test(value) && number >= min && number <= max) return number;
  throw new Error(`${flag} must be a whole number from ${min} to ${max}, got "${shorten(value)}".`);
}
