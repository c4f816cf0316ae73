/** Tells the operator why a source cannot be read: in the log once for each change, and in `deployment show`. */
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';
import type { SourceId, SourceStore } from '../../store/ports/sources.ts';

export interface SourceFault {
  readonly code: AnyErrorCode;
  /** For everybody who sees the deployment: without addresses, paths of the service and values of secrets. */
  readonly message: string;
  /** For the log of the operator; absent: the message. */
  readonly detail?: string;
}

export interface ProblemLog {
  /** Never rejects. @param fault  null: the source can be read */
  report(fault: SourceFault | null): Promise<void>;
}

export interface ProblemLogOptions {
  readonly id: SourceId;
  readonly openSources: () => Promise<Pick<SourceStore, 'report'>>;
  readonly nowMs: () => number;
  readonly log: (line: string) => void;
}

export function createProblemLog({ id, openSources, nowMs, log }: ProblemLogOptions): ProblemLog {
  // A process before this one may have recorded a problem that is over.
  let recorded: string | null | undefined;
  let logged: string | null = null;
  return {
    async report(fault) {
      const text = fault === null ? null : `${fault.code}: ${fault.detail ?? fault.message}`;
      const source = `the trigger ${id.trigger} of ${id.deployment}`;
      if (text !== logged) log(text === null ? `${source} reads its source again` : `${source}: ${text}`);
      logged = text;
      if (text === recorded) return;
      try {
        const problem = fault === null ? null : { code: fault.code, message: fault.message };
        await (await openSources()).report(id, problem, nowMs());
        recorded = text;
      } catch {
        // The database is away, which other parts of the service report. The next look records it.
      }
    },
  };
}
