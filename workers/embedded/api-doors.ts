/** All doors of the HTTP API: the Unix socket and the listeners over TCP. They share one process of the API. */
import { join } from 'node:path';
import type { ListenState } from '../../client/embedded/control.ts';
import { logsDir } from '../../client/embedded/stack-info.ts';
import { hasEnabledTriggers } from '../../client/embedded/trigger-mark.ts';
import { listApiArgs } from '../../setup/api-command.ts';
import { readEnvironment } from '../../setup/environment.ts';
import type { Log } from '../log.ts';
import { openApiDoor } from './api-door.ts';
import { openApiTcpDoor } from './api-tcp-door.ts';
import { openCappedLog } from './capped-log.ts';

export interface ApiDoorsOptions {
  readonly stateDir: string;
  readonly cacheDir: string;
  readonly keeper: string;
  readonly log: Log;
}

export interface ApiDoors {
  /** The time of the last connection; now, while one is open, the stack listens over TCP or a deployment has triggers. */
  lastUsedMs(): number;
  /** Reads `listen.json` again. */
  applyListen(): void;
  getListenState(): ListenState;
  close(): Promise<void>;
}

/** @throws Error if the Unix socket cannot be opened */
export async function openApiDoors({ stateDir, cacheDir, keeper, log }: ApiDoorsOptions): Promise<ApiDoors> {
  const file = openCappedLog(join(logsDir(stateDir), 'api.log'));
  const folders = ['--state-dir', stateDir, '--cache-dir', cacheDir];
  const onProblem = (message: string): void => log('warning', `API: ${message}`);
  const unix = await openApiDoor({
    stateDir,
    isWanted: () => hasEnabledTriggers(stateDir),
    command: () => ({
      file: keeper,
      args: ['tie', '--', process.execPath, ...listApiArgs(), ...folders],
      cwd: '/',
    }),
    env: readEnvironment().variables,
    onLine: (line) => file.write(`${line}\n`),
    onProblem,
  });
  const onListen = (url: string): void => log('info', `the API listens on ${url}`);
  const tcp = openApiTcpDoor({ stateDir, api: unix, onProblem, onListen });
  return {
    lastUsedMs: () => (tcp.isWanted() ? Date.now() : unix.lastUsedMs()),
    applyListen: () => tcp.apply(),
    getListenState: () => tcp.getState(),
    async close() {
      tcp.close();
      await unix.close();
    },
  };
}
