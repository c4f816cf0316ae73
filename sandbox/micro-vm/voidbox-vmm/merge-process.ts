/**
 * One process `voidbox-vmm --merge`. It has only the descriptors of the files, and its filter of system calls lets it read
 * and write nothing else (docs/reference/vmm.md).
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import { limitSignal } from '../../../files/limited-signal.ts';

/** The open files of a link, by their numbers in this process. */
export interface LinkDescriptors {
  readonly state: number;
  readonly memory: number;
}

/** The end of a merge that made no result: the file that was refused, or null, and the reason. */
export interface MergeRefusal {
  /** The place of the link in the chain; null: the refused file is not one of a link. */
  readonly link: number | null;
  readonly file: 'state' | 'memory' | null;
  readonly text: string;
}

/** The descriptor of the control in the process; those of the files follow. */
const CONTROL = 3;
const FIRST_FILE = 4;
const ANSWER_BYTES = 64 * 1024;
const STDERR_BYTES = 4 * 1024;
/** A merge reads and writes 16 GiB at most, also on a slow disk. */
const LIMIT_MS = 30 * 60_000;

/**
 * Merges a chain into two empty files, of which `into.memory` has the size of the memory. Returns null if it did.
 * @throws CodedError `host/not-ready` if the program cannot be started, the reason of the signal
 */
export async function runMerge(
  program: string,
  chain: readonly LinkDescriptors[],
  into: LinkDescriptors,
  signal: AbortSignal,
): Promise<MergeRefusal | null> {
  signal.throwIfAborted();
  const files = [...chain, into].flatMap(({ state, memory }) => [state, memory]);
  const child = spawn(program, ['--merge', String(CONTROL)], {
    env: {},
    stdio: ['ignore', 'ignore', 'pipe', 'pipe', ...files],
    signal: limitSignal(signal, LIMIT_MS),
    killSignal: 'SIGKILL',
  });
  const control = child.stdio[CONTROL] as Socket;
  const answer = readText(control, ANSWER_BYTES);
  const stderr = readText(child.stderr!, STDERR_BYTES);
  const ending = once(child, 'close') as Promise<[number | null, string | null]>;
  control.write(`${JSON.stringify(describe(chain.length))}\n`);
  try {
    const [code, killed] = await ending;
    const said = parseAnswer(await answer);
    return said === 'merged' && code === 0 ? null : refuse(said, describeEnd(code, killed, await stderr));
  } catch (error) {
    signal.throwIfAborted();
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'EACCES')
      throw new CodedError('host/not-ready', `${program} cannot be started (${code}): voidbox doctor`, {
        cause: error,
      });
    return { link: null, file: null, text: message };
  }
}

function describe(links: number): object {
  const describeFiles = (place: number) => ({ stateFd: FIRST_FILE + 2 * place, memoryFd: FIRST_FILE + 2 * place + 1 });
  return {
    version: 1,
    chain: Array.from({ length: links }, (_, place) => describeFiles(place)),
    into: describeFiles(links),
  };
}

/** Reads a stream to its end, and keeps its beginning. An error of the stream is an end: the process has its own. */
async function readText(stream: NodeJS.ReadableStream, mostBytes: number): Promise<string> {
  let text = '';
  stream.on('data', (bytes: Buffer) => (text += bytes.toString().slice(0, Math.max(0, mostBytes - text.length))));
  await new Promise<void>((resolve) => {
    for (const event of ['end', 'close', 'error']) stream.once(event, resolve);
  });
  return text;
}

/** Returns `merged`, a refusal, or null for a text that no merge writes. */
function parseAnswer(text: string): MergeRefusal | 'merged' | null {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    return null;
  }
  const { event, reason } = answer as { event?: unknown; reason?: { key?: unknown; text?: unknown } };
  if (event === 'merged') return 'merged';
  if (event !== 'ended' || typeof reason?.text !== 'string') return null;
  const key = typeof reason.key === 'string' ? reason.key : 'the merge';
  const [, link, file] = /^chain\[(\d)\]\.(state|memory)Fd$/.exec(key) ?? [];
  if (link !== undefined && (file === 'state' || file === 'memory'))
    return { link: Number(link), file, text: reason.text };
  return { link: null, file: null, text: `${key}: ${reason.text}` };
}

function refuse(said: MergeRefusal | 'merged' | null, end: MergeRefusal): MergeRefusal {
  return said === null || said === 'merged' ? end : said;
}

function describeEnd(code: number | null, killed: string | null, stderr: string): MergeRefusal {
  const how = killed === null ? `ended with ${code}` : `was killed (${killed})`;
  return { link: null, file: null, text: `voidbox-vmm ${how}${stderr === '' ? '' : `: ${stderr.trim()}`}` };
}
