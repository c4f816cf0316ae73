/** The `--json` form of what a run takes over of an earlier one. */
import type { AgainBecause, Reuse } from '../../domain/pipeline/reuse.ts';
import type { StageEnd } from '../../domain/run/stage-ends.ts';
import type { RunOrigin } from '../../domain/run/origin.ts';

export interface OriginJson {
  readonly origin: RunOrigin;
  /** Stages whose results are taken over. */
  readonly given: readonly string[];
  readonly again: readonly AgainJson[];
  /** VMs that start from a checkpoint of a step. */
  readonly checkpoints: readonly { readonly scope: string; readonly after: string }[];
}

export interface AgainJson {
  readonly stage: string;
  /** Why it runs again. */
  readonly because: AgainBecause['kind'];
  /** The other stage that is the reason; null: there is no other stage. */
  readonly of: string | null;
  readonly keys: readonly string[];
  readonly state: StageEnd['state'] | null;
  readonly unsaved: string | null;
}

/** Fields of `--json` of a run that comes from another. */
export function toOriginJson({ origin, reuse }: { readonly origin: RunOrigin; readonly reuse: Reuse }): OriginJson {
  const again = [...reuse.again].map(([stage, { kind, ...why }]) => {
    const {
      stage: of = null,
      keys = [],
      state = null,
      unsaved = null,
    } = why as Partial<Record<'stage' | 'unsaved', string>> & {
      readonly keys?: readonly string[];
      readonly state?: StageEnd['state'] | null;
    };
    return { stage, because: kind, of, keys, state, unsaved };
  });
  const checkpoints = [...reuse.firstDisks].map(
    ([
      scope,
      {
        checkpoint: { after },
      },
    ]) => ({ scope, after }),
  );
  return { origin, given: [...reuse.given.keys()], again, checkpoints };
}
