/** Events of runs in files, as readers see them. */
import type { RunEvent } from '../../domain/run/event.ts';
import type { RunReader } from '../../activities/ports/run-reader.ts';
import { LogReader } from './log-reader.ts';
import { FileWake } from './wake.ts';

export function createFileRunReader(stateDir: string): RunReader {
  return {
    read: (runId, after, options) => new LogReader(stateDir, runId, after, options?.output ?? true).toEndAndClose(),
    follow: (runId, after, signal, options) =>
      follow(new LogReader(stateDir, runId, after, options?.output ?? true), signal),
  };
}

async function* follow(log: LogReader, signal: AbortSignal): AsyncGenerator<RunEvent> {
  const wake = new FileWake(log.path);
  try {
    while (!signal.aborted) {
      wake.arm();
      for await (const event of log.toEnd()) {
        yield event;
        if (event.body.type === 'run-finished' || signal.aborted) return;
      }
      if (log.finished) return;
      await wake.wait(signal);
    }
  } finally {
    wake.close();
    await log.close();
  }
}
