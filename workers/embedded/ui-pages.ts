/**
 * Serves the pages of the Temporal UI. They come from the dev server's UI server, whose data API needs no login and
 * cannot be switched off. So the server with the runs has no UI. A second server serves the pages: it has no data,
 * lives in memory, and runs while a user has the UI open.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { StackPieces } from '../../setup/pieces/host-pieces.ts';
import { createOnDemandProcess } from './on-demand-process.ts';
import { startRestarting } from './restarting-process.ts';
import { freePorts, isFree } from './ports.ts';
import { pagesCommand } from './server-process.ts';

/** As long as the start of a whole stack, on a busy host. */
const START_LIMIT_MS = 90_000;
const POLL_MS = 50;
const STOP_GRACE_MS = 5_000;
const IDLE_LIMIT_MS = 10 * 60_000;

export interface UiPagesOptions {
  readonly pieces: StackPieces;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onLine: (line: string) => void;
  readonly idleLimitMs?: number;
}

export interface UiPages {
  /** Returns the loopback port of the pages, and starts their server if needed. @throws Error if it does not start */
  port(): Promise<number>;
  /** The pid of the server; null while no user has the UI open. */
  pid(): number | null;
  stop(): Promise<void>;
}

export function createUiPages({ pieces, env, onLine, idleLimitMs = IDLE_LIMIT_MS }: UiPagesOptions): UiPages {
  let port = 0;
  const server = createOnDemandProcess({
    start: () =>
      startRestarting({
        // Without a home: a server in memory would write a name for itself into its user's settings.
        env: { ...env, HOME: undefined, XDG_CONFIG_HOME: undefined },
        async command() {
          const [grpc, ui] = (await freePorts(2)) as [number, number];
          port = ui;
          return pagesCommand(pieces, { grpc, ui });
        },
        onLine,
        onStart: () => undefined,
        onEnd: (how) => {
          port = 0;
          onLine(`ended: ${how}`);
        },
      }),
    idleLimitMs,
    graceMs: STOP_GRACE_MS,
    onStop: () => (port = 0),
  });
  return {
    async port() {
      server.use();
      const until = Date.now() + START_LIMIT_MS;
      // A port that is free has no server yet, or none any more.
      while (port === 0 || (await isFree(port))) {
        if (Date.now() > until) throw new Error('the pages of the Temporal UI did not start');
        await sleep(POLL_MS);
      }
      return port;
    },
    pid: () => server.pid(),
    stop: () => server.stop(),
  };
}
