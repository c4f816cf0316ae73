/** A dev server, and a worker in a process of its own that is started again when it dies, for tests of sessions. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readEnvironment } from '../../../setup/environment.ts';
import { resolveHostPieces } from '../../../setup/resolve.ts';
import { workerArgs } from '../../../setup/worker-command.ts';
import { connectRuns, type RunsConnection } from '../../../client/temporal/connect.ts';
import { startRestarting, type RestartingProcess } from '../../../workers/embedded/restarting-process.ts';
import { createEmbeddedAddress } from '../../../client/temporal/temporal-address.ts';
import { startTestServer } from '../servers/test-server.ts';

/** A callback that hangs costs the test as much; a callback on a busy machine takes seconds. */
export const TURN_LIMIT_MS = 10_000;
const READY_LIMIT_MS = 30_000;

export interface SessionRig {
  readonly stateDir: string;
  readonly runs: RunsConnection;
  /** Returns the pid of the running worker. */
  workerPid(): number | null;
  /** How often a worker was started. */
  starts(): number;
  /** Returns the output of the workers. */
  log(): string;
  /** Writes a skill's entry below the folder that the worker loads. `code` sees `skill`, `terminal`, `z`, `log(text)` and `LINES`, the path of what that writes. */
  writeSkill(name: string, code: string): void;
  /** Lines that skills wrote with `log`. */
  lines(): string[];
  /** Ends the worker with SIGTERM and waits for the next one. */
  restartWorker(): Promise<void>;
  stop(): Promise<void>;
}

export async function startSessionRig(temporalCli: string, serverArgs: readonly string[] = []): Promise<SessionRig> {
  const server = await startTestServer(temporalCli, serverArgs);
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-sessions-'));
  const skillsDir = join(stateDir, 'my-skills');
  const logFile = join(stateDir, 'lines');
  mkdirSync(skillsDir);
  writeFileSync(logFile, '');
  const target = createEmbeddedAddress(server.address);
  const output: string[] = [];
  let starts = 0;
  let isStarted: () => void = () => undefined;
  let isReady: () => void = () => undefined;
  let ready = new Promise<void>((resolve) => (isReady = resolve));
  const { keeper } = await resolveHostPieces(readEnvironment(), { install: false });
  const worker: RestartingProcess = startRestarting({
    env: { ...readEnvironment().variables, VOIDBOX_SKILL_TURN_LIMIT_MS: String(TURN_LIMIT_MS) },
    command: () =>
      Promise.resolve({
        file: keeper,
        args: [
          'tie',
          '--',
          process.execPath,
          ...workerArgs(),
          '--embedded',
          '--address',
          server.address,
          '--state-dir',
          stateDir,
          '--keeper',
          keeper,
          '--skills',
          skillsDir,
        ],
      }),
    onLine: (line) => {
      output.push(line);
      if (line.startsWith('voidbox-worker ready')) isReady();
    },
    onStart: () => {
      starts += 1;
      isStarted();
    },
    onEnd: () => {
      ready = new Promise<void>((resolve) => (isReady = resolve));
    },
  });
  const untilReady = (): Promise<void> =>
    limited(ready, () => `the worker was not ready in time:\n${output.join('\n')}`);
  const stop = async (): Promise<void> => {
    await worker.stop(20_000);
    await server.stop();
    rmSync(stateDir, { recursive: true, force: true });
  };
  // A caller that gets no rig has nothing to stop.
  await untilReady().catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return {
    stateDir,
    runs: await connectRuns(target),
    workerPid: worker.pid,
    starts: () => starts,
    log: () => output.join('\n'),
    writeSkill(name, code) {
      const head = `import { skill, terminal, z } from 'voidbox/skill-kit';
import { appendFileSync, existsSync, rmSync, writeFileSync } from 'node:fs';
const LINES = ${JSON.stringify(logFile)};
const log = (text: string): void => appendFileSync(LINES, text + '\\n');
`;
      mkdirSync(join(skillsDir, name), { recursive: true });
      writeFileSync(join(skillsDir, name, 'skill.ts'), head + code);
    },
    lines: () => readFileSync(logFile, 'utf8').split('\n').slice(0, -1),
    async restartWorker() {
      const next = new Promise<void>((resolve) => (isStarted = resolve));
      worker.restart();
      await limited(next, () => `the worker did not end in time:\n${output.join('\n')}`);
      await untilReady();
    },
    stop,
  };
}

async function limited(work: Promise<void>, message: () => string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>(
    (_resolve, reject) => (timer = setTimeout(() => reject(new Error(message())), READY_LIMIT_MS)),
  );
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
