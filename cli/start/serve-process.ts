/** The process of `serve` that has the listeners, as its child. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import {
  parseServeNews,
  type ServeNews,
  type ServeOrder,
  type ServeSettings,
} from '../../client/service/serve-messages.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { listServeArgs } from '../../setup/api-command.ts';
import { DAEMON_TOKEN_VARIABLE } from '../../setup/daemon-settings.ts';
import type { Environment } from '../../setup/environment.ts';

export interface ServeProcess {
  /** Settles when all addresses are open. @throws the problem, if one cannot be opened */
  readonly opened: Promise<ServeNews>;
  /** Settles with the end: null if it ended as it was told, else how it ended. */
  readonly ended: Promise<string | null>;
  /** Lets open requests end, for a short time. */
  stop(): void;
  kill(): void;
}

/** @param onLine  called with each line of its log, sanitized */
export function startServeProcess(
  settings: ServeSettings,
  env: Environment,
  onLine: (line: string) => void,
): ServeProcess {
  const child = spawn(process.execPath, [...listServeArgs()], {
    env: selectServeVariables(env),
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  createInterface({ input: child.stderr! }).on('line', (line) => onLine(sanitizeLine(line)));
  const send = (order: ServeOrder): void => void child.send(order, () => undefined);
  const ended = awaitEnd(child);
  const opened = awaitNews(child, ended);
  send({ serve: settings });
  return { opened, ended, stop: () => send({ stop: true }), kill: () => void child.kill('SIGKILL') };
}

/** Returns the variables of the process. It works in another folder, so paths that the user has typed are absolute. */
export function selectServeVariables({
  variables,
  stateDir,
  cacheDir,
  database,
  secretsKeyFile,
}: Environment): Readonly<Record<string, string | undefined>> {
  const { [DAEMON_TOKEN_VARIABLE]: _secret, ...kept } = variables;
  return {
    ...kept,
    VOIDBOX_STATE_DIR: stateDir,
    VOIDBOX_CACHE_DIR: cacheDir,
    ...(database?.kind === 'file' ? { DATABASE_URL_FILE: database.path } : {}),
    ...(secretsKeyFile === null ? {} : { VOIDBOX_SECRETS_KEY_FILE: secretsKeyFile }),
  };
}

function awaitEnd(child: ChildProcess): Promise<string | null> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(code === 0 ? null : `it ended with ${signal ?? code}`));
  });
}

async function awaitNews(child: ChildProcess, ended: Promise<string | null>): Promise<ServeNews> {
  const told = new Promise<ServeNews>((resolve) =>
    child.on('message', (message) => {
      const news = parseServeNews(message);
      if (news !== null) resolve(news);
    }),
  );
  const gone = ended.then((how): ServeNews => ({ problem: { message: how ?? 'it was ended', remedy: null } }));
  return await Promise.race([told, gone]);
}
