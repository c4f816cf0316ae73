/** Watches the folder of a trigger: scans it again and again. inotify only begins a scan earlier. */
import { randomBytes } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import type { AllowedSources } from '../../../client/embedded/allowed-sources.ts';
import type { FolderSource } from '../../../domain/delivery/trigger.ts';
import { isCodedError } from '../../../domain/errors/coded-error.ts';
import { patternOf } from '../../../domain/language/read/file-pattern.ts';
import { FOLDER_LIMITS } from '../../../domain/sources/file-rules.ts';
import { FileRefusal } from '../../../files/open-file.ts';
import type { TriggerStore } from '../../../store/triggers.ts';
import { findWatched } from '../../deployments/refuse-sources.ts';
import type { EnabledSource } from '../enabled-sources.ts';
import { type Loop, startLoop } from '../../loop.ts';
import type { ProblemLog, SourceFault } from '../problem-log.ts';
import { Fingerprints } from './fingerprints.ts';
import { openWatched } from './held-folder.ts';
import { type ScanLimits, type ScanMemory, scanFolder, type ScanTools } from './scan-folder.ts';

/** The second scan must not see the file in the same moment, and a busy folder must not keep a core busy. */
const LEAST_PAUSE_MS = 1_000;
/** Scans take at most a tenth of a CPU. */
const MOST_BUSY = 0.1;
/** The store is asked about each file again after this time, so that it does not forget the file. */
const RENEW_EVERY_MS = 24 * 60 * 60_000;
/** The pause after a failure. */
const FAILURE_MS = 10_000;

export interface WatchTools extends Omit<ScanTools, 'sources' | 'signal' | 'limits'> {
  readonly openTriggers: () => Promise<Pick<TriggerStore, 'sources'>>;
  /** @throws SetupError */
  readonly readAllowed: () => AllowedSources;
  readonly problems: ProblemLog;
  /** Scans of one service follow each other. */
  readonly takeTurn: <T>(work: () => Promise<T>) => Promise<T>;
  /** Other limits are for tests. */
  readonly limits?: ScanLimits;
  readonly leastPauseMs?: number;
}

export function watchFolder(enabled: EnabledSource<FolderSource>, tools: WatchTools): Loop {
  const { source } = enabled;
  const pattern = patternOf(source.match);
  if ('problem' in pattern) throw new Error(`the compiled pattern ${source.match} has a mistake: ${pattern.problem}`);
  const memory: ScanMemory = { salt: randomBytes(16), files: new Fingerprints() };
  let renewedAtMs = tools.nowMs();
  const bell = createBell(() => loop.wake());
  const leastMs = tools.leastPauseMs ?? LEAST_PAUSE_MS;

  const scanOnce = async (signal: AbortSignal): Promise<number> => {
    const path = findWatched(source.path, tools.readAllowed().watch);
    if (path === null) throw new NotAllowed();
    const root = await openWatched(path);
    try {
      bell.attach(path, (await root.stat()).ino);
      const { sources } = await tools.openTriggers();
      const { id, version, isOrdered, changedAtMs } = enabled;
      const sinceMs = await sources.begin(id, path, changedAtMs);
      const now = tools.nowMs();
      // Also if the clock was set back.
      if (Math.abs(now - renewedAtMs) >= RENEW_EVERY_MS) {
        memory.files = new Fingerprints();
        renewedAtMs = now;
      }
      const folder = { id, version, isOrdered, source, pattern, path, sinceMs };
      const result = await scanFolder(root, folder, memory, {
        ...tools,
        limits: tools.limits ?? FOLDER_LIMITS,
        sources,
        signal,
      });
      if (!signal.aborted)
        await tools.problems.report(
          result.problem === null ? null : { code: 'source/too-many-files', message: `the folder: ${result.problem}` },
        );
      return result.isUnfinished ? leastMs : source.everyMs;
    } finally {
      await root.close();
    }
  };
  const loop = startLoop({
    leastMs,
    mostBusy: MOST_BUSY,
    async scan(signal) {
      try {
        return await tools.takeTurn(async () => (signal.aborted ? 0 : await scanOnce(signal)));
      } catch (error) {
        if (!signal.aborted) await tools.problems.report(describeFault(error));
        return FAILURE_MS;
      }
    },
  });
  return {
    wake: loop.wake,
    async close() {
      bell.detach();
      await loop.close();
    },
  };
}

class NotAllowed extends Error {}

function describeFault(error: unknown): SourceFault {
  if (error instanceof NotAllowed)
    return { code: 'source/not-allowed', message: 'the operator of the service does not allow its folder' };
  const detail = (error as Error).message;
  if (error instanceof FileRefusal)
    return { code: 'source/unavailable', message: `the folder ${REFUSALS[error.reason]}`, detail };
  if (isCodedError(error)) return { code: error.code, message: 'the service cannot store a file', detail };
  return { code: 'source/unavailable', message: 'the folder cannot be read', detail };
}

const REFUSALS: Readonly<Record<FileRefusal['reason'], string>> = {
  missing: 'does not exist',
  denied: 'cannot be read by the user of the service',
  'not-regular': 'is not a folder',
  outside: 'leads elsewhere',
  'too-large': 'is too large',
  changed: 'was replaced while it was opened',
};

/** Calls a function when names in a folder change. Without inotify, for example on a network, it is silent. */
function createBell(ring: () => void): { attach(path: string, ino: number): void; detach(): void } {
  let watcher: FSWatcher | null = null;
  let attachedTo = '';
  const detach = (): void => {
    watcher?.close();
    watcher = null;
    attachedTo = '';
  };
  return {
    attach(path, ino) {
      const place = `${ino} ${path}`;
      if (place === attachedTo) return;
      detach();
      try {
        watcher = watch(path, { persistent: false }, ring);
        watcher.on('error', detach);
        attachedTo = place;
      } catch {
        // The system has no watch left: the scans find the files.
      }
    },
    detach,
  };
}
