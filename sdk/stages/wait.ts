/** Stages that let time pass. */
import { WAIT_OPTIONS } from '../known-options.ts';
import { checkOptions, durationOf, namesOf } from '../options.ts';
import { reportPlace } from '../places.ts';
import type { Approval, Box, Part, Step, Wait } from './stage.ts';

export interface WaitOptions {
  /** From the moment at which the stage starts; this, or `until`. */
  readonly forMs?: number;
  /**
   * A date, a text with its offset from UTC, or an expression that gives such a text, such as `stages.plan.json.at`; a time that has
   * passed ends the wait at once.
   */
  readonly until?: Date | string;
  /** As for a step or box. */
  readonly when?: string;
  /** In a workflow; a pipeline has its order. */
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** It starts when one of these has failed; in a pipeline, put it into `aside`. */
  readonly onFailure?: readonly (Step | Box | Approval | Wait | Part)[];
  /** Its failure is tolerated. */
  readonly continueOnError?: boolean;
}

/** Time that passes, as a step of a workflow or a box of a pipeline, without a VM. */
export function wait(name: string, options: WaitOptions): Wait {
  const of = `of wait "${name}"`;
  checkOptions(`options ${of}`, options, WAIT_OPTIONS);
  const { forMs, until, when, dependsOn, onFailure, continueOnError } = options;
  const spec = {
    name,
    when,
    wait: {
      for: durationOf(`\`forMs\` ${of}`, forMs),
      until: until instanceof Date ? until.toISOString() : until,
    },
    depends_on: namesOf(`\`dependsOn\` ${of}`, dependsOn),
    on_failure: namesOf(`\`onFailure\` ${of}`, onFailure),
    continue_on_error: continueOnError,
  };
  reportPlace(spec, wait);
  return { kind: 'wait', name, spec };
}
