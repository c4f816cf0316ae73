/** Each transport of a skill as the same two calls, so that one table of answers goes through all of them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, readFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { onTestFinished } from 'vitest';

/** The result that a client sees, by any transport. */
export interface Shown {
  readonly kind: 'prompt' | 'waiting' | 'done';
  readonly step?: string;
  readonly prompt?: string;
  readonly turn?: number;
  readonly finalOutput?: unknown;
}

export interface Going {
  readonly first: Shown;
  advance(step: string, output: unknown, turn: number | undefined): Promise<Shown>;
  /** Returns the current state; only for transports that remember it. */
  look?(): Promise<Shown>;
}

export interface Beginning {
  readonly skill: string;
  readonly params?: unknown;
  readonly subskill?: string;
}

export interface Driver {
  readonly name: string;
  start(beginning: Beginning): Promise<Going>;
}

/** The place of a skill's script, and the folder and environment of processes. */
export interface Surroundings {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  scriptOf(skill: string): string;
}

export async function output(
  args: readonly string[],
  { cwd, env }: Pick<Surroundings, 'cwd' | 'env'>,
): Promise<string> {
  const child = spawn(process.execPath, [...args], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: 110_000 });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${args.join(' ')}: exit code ${code}\n${stdout}${stderr}`);
  return stdout;
}

function beginningFlags({ params, subskill }: Beginning): string[] {
  return [
    ...(params === undefined ? [] : ['--params', JSON.stringify(params)]),
    ...(subskill === undefined ? [] : ['--subskill', subskill]),
  ];
}

/** @throws for an error of the skill, because the answers of the table are right */
function shown(result: unknown): Shown {
  const { kind } = result as { readonly kind: string };
  if (kind !== 'prompt' && kind !== 'waiting' && kind !== 'done')
    throw new Error(`not gone on: ${JSON.stringify(result)}`);
  return result as Shown;
}

interface Completed {
  readonly completed?: unknown;
  readonly autoAdvanced?: readonly unknown[];
}

/** The client carries the history. */
export function statelessCli(around: Surroundings): Driver {
  return {
    name: 'command line, stateless',
    async start(beginning) {
      const script = around.scriptOf(beginning.skill);
      const history: unknown[] = [];
      const params = beginning.params === undefined ? [] : ['--params', JSON.stringify(beginning.params)];
      const call = async (...args: string[]): Promise<Shown> => {
        const result = JSON.parse(await output([script, ...args], around)) as Completed;
        history.push(...(result.completed === undefined ? [] : [result.completed]), ...(result.autoAdvanced ?? []));
        return shown(result);
      };
      return {
        first: await call('start', ...beginningFlags(beginning)),
        advance: (step, answer) =>
          call(
            'advance',
            '--step',
            step,
            '--output',
            JSON.stringify(answer),
            '--history',
            JSON.stringify(history),
            ...params,
          ),
      };
    },
  };
}

/** The client writes its answers to the session file. */
export function sessionCli(around: Surroundings, sessionDir: string): Driver {
  return {
    name: 'command line, session file',
    async start(beginning) {
      const script = around.scriptOf(beginning.skill);
      const dir = ['--session-dir', sessionDir];
      const started = JSON.parse(
        await output([script, 'start', '--session', 'new', ...dir, ...beginningFlags(beginning)], around),
      ) as {
        readonly sessionId: string;
        readonly file: string;
        readonly line: number;
      };
      const at = (line: number): Shown => shown(JSON.parse(readFileSync(started.file, 'utf8').split('\n')[line - 1]!));
      return {
        first: at(started.line),
        async advance(step, answer) {
          appendFileSync(started.file, `${JSON.stringify({ type: 'output', step, output: answer })}\n`);
          return at(Number(await output([script, 'advance', '--session', started.sessionId, ...dir], around)));
        },
      };
    },
  };
}

export function durableCli(around: Surroundings): Driver {
  return {
    name: 'command line, --durable',
    async start(beginning) {
      const script = around.scriptOf(beginning.skill);
      const first = JSON.parse(await output([script, 'start', '--durable', ...beginningFlags(beginning)], around)) as {
        readonly session: string;
      };
      const call = async (...args: string[]): Promise<Shown> =>
        shown(JSON.parse(await output([script, 'advance', '--session', first.session, ...args], around)));
      return {
        first: shown(first),
        advance: (step, answer, turn) =>
          call('--step', step, '--turn', String(turn), '--output', JSON.stringify(answer)),
        look: () => call(),
      };
    },
  };
}

/** @param bin  path of `voidbox` */
export function voidboxSession(around: Surroundings, bin: string): Driver {
  return {
    name: 'voidbox session',
    async start(beginning) {
      const call = async (
        ...args: string[]
      ): Promise<{ readonly session: string; readonly result?: unknown; readonly current?: unknown }> =>
        JSON.parse(await output([bin, 'session', ...args, '--json'], around));
      const { session, result } = await call('start', beginning.skill, ...beginningFlags(beginning));
      return {
        first: shown(result),
        advance: async (step, answer, turn) =>
          shown(
            (await call('advance', session, '--step', step, '--turn', String(turn), '--output', JSON.stringify(answer)))
              .result,
          ),
        look: async () => shown((await call('status', session)).current),
      };
    },
  };
}

export function mcpStdio(around: Surroundings, ...flags: string[]): Driver {
  return {
    name: ['MCP over stdio', ...flags].join(', '),
    async start(beginning) {
      const args = [around.scriptOf(beginning.skill), 'mcp', ...flags];
      const transport = new StdioClientTransport({
        command: process.execPath,
        args,
        stderr: 'ignore',
        cwd: around.cwd,
        env: around.env,
      });
      return await overMcp(transport, beginning);
    },
  };
}

export function mcpHttp(around: Surroundings, ...flags: string[]): Driver {
  return {
    name: ['MCP over HTTP', ...flags].join(', '),
    async start(beginning) {
      const child = spawn(process.execPath, [around.scriptOf(beginning.skill), 'mcp', '--http', '0', ...flags], {
        ...around,
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      return await overMcp(new StreamableHTTPClientTransport(new URL(await listening(child))), beginning);
    },
  };
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stderr!.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const found = /listening on (\S+)/.exec(text)?.[1];
      if (found !== undefined) resolve(found);
    });
    child.once('exit', () => reject(new Error(`the server ended: ${text}`)));
  });
}

async function overMcp(
  transport: StdioClientTransport | StreamableHTTPClientTransport,
  { params, subskill }: Beginning,
): Promise<Going> {
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(transport);
  onTestFinished(() => client.close());
  const call = async (tool: string, args: Record<string, unknown>): Promise<Shown & { readonly session: string }> => {
    const { structuredContent } = (await client.callTool({ name: tool, arguments: args })) as CallToolResult;
    const { status, ...rest } = structuredContent as { readonly status: string; readonly session: string };
    return { ...rest, ...shown({ ...rest, kind: status }) };
  };
  const first = await call('start', {
    ...(params === undefined ? {} : { params }),
    ...(subskill === undefined ? {} : { subskill }),
  });
  const { session } = first;
  return {
    first,
    advance: (step, answer, turn) =>
      call('advance', { session, step, output: answer, ...(turn === undefined ? {} : { turn }) }),
    look: () => call('advance', { session }),
  };
}
