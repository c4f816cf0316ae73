/**
 * Runs git of the host as a child process. It reads only the configuration that this file sets, not the configuration
 * of the user, the system or a repository. Every command works in a repository that Voidbox made; without one, git
 * finds none.
 */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** The host's settings for git. */
export interface GitHost {
  /** The PATH in which the host looks up `git`. */
  readonly path: string;
  /** The user's home with ignore rules, and for URLs with credentials. Null: git reads no home. */
  readonly home: string | null;
  /** The user's folder of configuration, as in `XDG_CONFIG_HOME`; null or absent: `.config` of the home. */
  readonly configHome?: string | null;
  /** The folder for private repositories; by default the system's temporary folder. */
  readonly scratch?: string;
  /** The default signal, which ends every command that has no other signal. */
  readonly signal?: AbortSignal;
}

export interface GitCall {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: AsyncIterable<Uint8Array> | Uint8Array;
  /** The limit for standard output; git is killed when it writes more. */
  readonly mostBytes?: number;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Limits memory and CPU time, because the command reads data of a guest. */
  readonly confined?: boolean;
  /** Files that show git's end to other processes, even if this process ends first. */
  readonly outliving?: OutlivingFiles;
  /** Reads the user's and the system's configuration, which contain the logins. */
  readonly withUserConfig?: boolean;
}

export interface OutlivingFiles {
  /** A file that is locked while git lives. */
  readonly lock: string;
  /** A file that gets git's exit code once git has ended. */
  readonly ended: string;
}

/** The reason why git failed; `detail` is text of git, which may quote hostile names. */
export class GitError extends Error {
  readonly reason: 'missing' | 'failed' | 'too-large' | 'timeout' | 'disk-full';
  readonly detail: string;
  /** All text of git, up to `stderrBytes`; `detail` is its end. */
  readonly said: string;
  /** Whether git wrote more than `said` contains. */
  readonly isCut: boolean;
  /** The code of a system call, for callers that wait for space. */
  readonly code?: 'ENOSPC';
  constructor(reason: GitError['reason'], detail: string, said = detail, isCut = false) {
    super(`git: ${detail}`);
    this.name = 'GitError';
    this.reason = reason;
    this.detail = detail;
    this.said = said;
    this.isCut = isCut;
    if (reason === 'disk-full') this.code = 'ENOSPC';
  }
}

export const GIT_LIMITS = {
  /** The timeout of one command, unless its call sets another. */
  timeoutMs: 5 * 60_000,
  /** The limit for output that is read as text. */
  textBytes: 4 * 1024 * 1024,
  /** Address space and CPU time of a command that reads data of a guest. */
  confinedKib: 6 * 1024 * 1024,
  confinedCpuSecs: 300,
  stderrBytes: 8 * 1024,
} as const;

/** Settings that disable these features, whatever a repository or its history contains. */
const NEVER = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.pager=cat',
  'core.askPass=',
  'core.symlinks=true',
  'core.precomposeUnicode=false',
  'core.protectHFS=true',
  'core.protectNTFS=true',
  'diff.external=',
  'diff.renames=true',
  'gc.auto=0',
  'maintenance.auto=false',
  'pack.threads=1',
  'pack.windowMemory=128m',
  'submodule.recurse=false',
  'fetch.recurseSubmodules=false',
  'transfer.fsckObjects=true',
  'safe.directory=*',
  'advice.detachedHead=false',
];

export function environmentOf(host: GitHost, { env = {}, withUserConfig = false }: GitCall): Record<string, string> {
  return {
    PATH: absolutePath(host.path),
    LC_ALL: 'C',
    ...(withUserConfig && host.home !== null ? { HOME: host.home } : { HOME: '/nonexistent' }),
    ...(withUserConfig && host.configHome ? { XDG_CONFIG_HOME: host.configHome } : {}),
    ...(withUserConfig ? {} : { GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null' }),
    GIT_ATTR_NOSYSTEM: '1',
    // Without it, git looks for a repository from the working folder upwards, and reads its configuration.
    GIT_DIR: NO_REPOSITORY,
    GIT_TERMINAL_PROMPT: '0',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_NO_LAZY_FETCH: '1',
    GIT_LITERAL_PATHSPECS: '1',
    GIT_ALLOW_PROTOCOL: 'none',
    GIT_AUTHOR_NAME: 'Voidbox',
    GIT_AUTHOR_EMAIL: 'voidbox@localhost',
    GIT_COMMITTER_NAME: 'Voidbox',
    GIT_COMMITTER_EMAIL: 'voidbox@localhost',
    ...env,
  };
}

const NO_REPOSITORY = '/nonexistent/repository.git';

/** Leaves out relative folders: the author of a repository could put a program `git` into the working folder. */
function absolutePath(path: string): string {
  const folders = path.split(':').filter((folder) => folder.startsWith('/'));
  // An empty PATH means the working folder.
  return folders.length === 0 ? '/nonexistent' : folders.join(':');
}

const TELL_END = 'git "$@"; code=$?; echo "$code" > "$0"; exit "$code"';

type GitProcess = ChildProcessByStdio<Writable, Readable, Readable>;

function start(host: GitHost, args: readonly string[], call: GitCall): GitProcess {
  const all = [...NEVER.flatMap((setting) => ['-c', setting]), ...args];
  const limits = `ulimit -v ${GIT_LIMITS.confinedKib}; ulimit -t ${GIT_LIMITS.confinedCpuSecs}; exec git "$@"`;
  const [program, argv] =
    call.confined === true
      ? ['/bin/sh', ['-c', limits, 'sh', ...all]]
      : call.outliving === undefined
        ? ['git', all]
        : ['flock', [call.outliving.lock, '/bin/sh', '-c', TELL_END, call.outliving.ended, ...all]];
  return spawn(program, argv, {
    cwd: call.cwd ?? '/',
    env: environmentOf(host, call),
    stdio: ['pipe', 'pipe', 'pipe'],
    // Ctrl-C on a terminal reaches only the caller, which knows what it may interrupt.
    detached: true,
  });
}

/** Kills git and the programs that it has started, for example the one for HTTPS. */
function kill(child: GitProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    child.kill('SIGKILL');
  }
}

/** Yields standard output as it arrives. Throws a GitError if git fails or exceeds a limit. */
export async function* streamGit(
  host: GitHost,
  args: readonly string[],
  call: GitCall = {},
): AsyncIterable<Uint8Array> {
  const child = start(host, args, call);
  const { mostBytes = GIT_LIMITS.textBytes, timeoutMs = GIT_LIMITS.timeoutMs, signal = host.signal } = call;
  let ended: GitError | null = null;
  const end = (why: GitError): void => {
    ended ??= why;
    kill(child);
  };
  // The argument after `-c` is a setting, not a command.
  const name = args.find((arg, at) => !arg.startsWith('-') && args[at - 1] !== '-c') ?? 'git';
  const timer = setTimeout(
    () => end(new GitError('timeout', `${name} took longer than ${timeoutMs / 1_000} s`)),
    timeoutMs,
  );
  const onAbort = (): void => kill(child);
  if (signal?.aborted === true) onAbort();
  else signal?.addEventListener('abort', onAbort, { once: true });
  const complaint = readComplaint(child.stderr);
  const exit = new Promise<string | null>((resolve, reject) => {
    child.once('error', (error: NodeJS.ErrnoException) =>
      reject(error.code === 'ENOENT' ? new GitError('missing', 'the program `git` is not on the PATH') : error),
    );
    child.once('close', (code, by) => resolve(code === 0 ? null : by === null ? `exit code ${code}` : `${by}`));
  });
  exit.catch(() => undefined);
  const feeding = feed(child.stdin, call.stdin);
  try {
    let bytes = 0;
    for await (const chunk of child.stdout as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength;
      if (bytes > mostBytes) end(new GitError('too-large', `${name} gave more than ${mostBytes} bytes`));
      if (ended !== null) break;
      yield chunk;
    }
    const problem = await exit;
    signal?.throwIfAborted();
    if (ended !== null) throw ended;
    const sourceError = await feeding;
    if (problem !== null) throw failureOf(host, name, await complaint, problem);
    if (sourceError !== null) throw sourceError;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
    kill(child);
  }
}

/** Messages about the host's disk, in the words of the C locale. */
const NO_SPACE = /No space left on device|Disk quota exceeded|Out of diskspace/;
/** Some messages of git name a file and no reason. If the disk is almost full, that is the reason. */
const UNWRITTEN = /(?:failed to|could not|couldn't|cannot|unable to) write|write error/i;
const LITTLE_ROOM_BYTES = 1024 * 1024;

function failureOf(host: GitHost, name: string, { said, isCut }: Complaint, exit: string): GitError {
  const lines = said.split('\n').filter((line) => line.trim() !== '');
  const end = lines.slice(-4).join('; ') || exit;
  const isFull = NO_SPACE.test(said) || (UNWRITTEN.test(said) && hasLittleRoom(host));
  return new GitError(isFull ? 'disk-full' : 'failed', `${name}: ${end}`, said, isCut);
}

function hasLittleRoom({ scratch = tmpdir() }: GitHost): boolean {
  try {
    const { bavail, bsize } = statfsSync(scratch);
    return bavail * bsize < LITTLE_ROOM_BYTES;
  } catch {
    return false;
  }
}

/**
 * Returns the error of the source itself. If git stopped reading early, its exit code explains more, so this returns
 * null.
 */
async function feed(stdin: Writable, source: GitCall['stdin']): Promise<Error | null> {
  try {
    if (source === undefined) stdin.end();
    else await pipeline(source instanceof Uint8Array ? [source] : source, stdin);
    return null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'EPIPE' || code === 'ERR_STREAM_PREMATURE_CLOSE' ? null : (error as Error);
  }
}

interface Complaint {
  readonly said: string;
  readonly isCut: boolean;
}

async function readComplaint(stderr: Readable): Promise<Complaint> {
  const kept: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stderr as AsyncIterable<Uint8Array>) {
    if (bytes < GIT_LIMITS.stderrBytes) kept.push(chunk);
    bytes += chunk.byteLength;
  }
  const { stderrBytes } = GIT_LIMITS;
  return { said: Buffer.concat(kept).toString('utf8', 0, stderrBytes), isCut: bytes > stderrBytes };
}

export async function readGitText(host: GitHost, args: readonly string[], call: GitCall = {}): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const chunk of streamGit(host, args, call)) parts.push(chunk);
  return Buffer.concat(parts).toString('utf8');
}

/** Like `readGitText`, but returns bytes, because names of files need not be text. */
export async function readGitBytes(host: GitHost, args: readonly string[], call: GitCall = {}): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of streamGit(host, args, call)) parts.push(chunk);
  return Buffer.concat(parts);
}
