/** `voidbox serve` as a process, and requests to its sockets. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';

const BIN = fileURLToPath(new URL('../../../bin/voidbox.js', import.meta.url));
const START_LIMIT_MS = 90_000;

export interface ServeCommand {
  readonly child: ChildProcess;
  /** The line of `--json`. */
  readonly told: { readonly stack: unknown; readonly apiSockets: unknown; readonly apiListeners: readonly unknown[] };
  stderr(): string;
  /** Settles with the exit code; null: a signal ended it. */
  readonly ended: Promise<number | null>;
}

/**
 * Starts it and waits until it listens. The caller ends the child.
 * @throws Error with its messages, if it ends before
 */
export async function startServe(
  options: readonly string[],
  { env, cwd }: { readonly env: NodeJS.ProcessEnv; readonly cwd: string },
): Promise<ServeCommand> {
  const child = spawn(process.execPath, [BIN, 'serve', ...options, '--json'], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: START_LIMIT_MS,
  });
  let [stdout, stderr] = ['', ''];
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  await new Promise<void>((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      if (stdout.endsWith('\n')) resolve();
    });
    void ended.then((code) => reject(new Error(`serve ended with ${code}: ${stderr}`)));
  });
  return { child, told: JSON.parse(stdout) as ServeCommand['told'], stderr: () => stderr, ended };
}

export interface ServedAnswer {
  readonly status: number;
  readonly body: string;
}

/** Sends a request over a Unix socket. @throws Error if no answer arrives */
export async function askSocket(
  socketPath: string,
  path: string,
  { body, accept = 'application/json' }: { readonly body?: unknown; readonly accept?: string } = {},
): Promise<ServedAnswer> {
  const method = body === undefined ? 'GET' : 'POST';
  const headers = { 'content-type': 'application/json', accept };
  const asked = request({ socketPath, path, method, headers, agent: false, timeout: 70_000 });
  asked.on('timeout', () => asked.destroy(new Error(`no answer to ${path}`)));
  asked.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  let text = '';
  for await (const part of response.setEncoding('utf8')) text += part as string;
  return { status: response.statusCode ?? 0, body: text };
}

/** Whether a process accepts connections at the socket. */
export async function isSocketServed(path: string): Promise<boolean> {
  const socket = connect({ path });
  const isServed = await new Promise<boolean>((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  });
  socket.destroy();
  return isServed;
}
