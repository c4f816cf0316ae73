/** Stages that ask people. */
import type { FieldType, TimeoutAnswer } from '../../domain/plan/plan.ts';
import { APPROVAL_OPTIONS } from '../known-options.ts';
import { checkOptions, durationOf, namesOf } from '../options.ts';
import { reportPlace } from '../places.ts';
import type { Approval, Box, Part, Step, Wait } from './stage.ts';

export interface ApprovalOptions {
  /** The question. Placeholders are filled in. */
  readonly message: string;
  /** The tokens, or groups of tokens, that may answer over TCP. Other answers only claim a name. */
  readonly by?: readonly string[];
  /** False: the answer needs the proof of a token that did not start the run, or of the owner. Default: true. */
  readonly selfApproval?: boolean;
  /** How long it waits for an answer. Default: as long as the run is open. */
  readonly timeoutMs?: number;
  /** The outcome without an answer in that time. Default: `fail`. */
  readonly onTimeout?: TimeoutAnswer;
  /** Values that the person who approves enters. */
  readonly fields?: readonly Field[];
  /** As for a step or box. */
  readonly when?: string;
  /** In a workflow; a pipeline has its order. */
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** It starts when one of these has failed; in a pipeline, put it into `aside`. */
  readonly onFailure?: readonly (Step | Box | Approval | Wait | Part)[];
  /** A rejection is tolerated: stages that depend on it still start. */
  readonly continueOnError?: boolean;
}

export interface Field {
  readonly name: string;
  /** Default: `choice` with `choices`, else `text`. */
  readonly type?: FieldType;
  readonly choices?: readonly string[];
  /** Default: true. */
  readonly required?: boolean;
  readonly description?: string;
}

/** A question to people, as a step of a workflow or a box of a pipeline. It waits without a VM. */
export function approval(name: string, options: ApprovalOptions): Approval {
  const of = `of approval "${name}"`;
  checkOptions(`options ${of}`, options, APPROVAL_OPTIONS);
  const { message, by, selfApproval, timeoutMs, onTimeout, fields, dependsOn, onFailure, when, continueOnError } =
    options;
  const timeout = durationOf(`\`timeoutMs\` ${of}`, timeoutMs);
  const spec = {
    name,
    when,
    approval: { message, by, self_approval: selfApproval, timeout, on_timeout: onTimeout, fields },
    depends_on: namesOf(`\`dependsOn\` ${of}`, dependsOn),
    on_failure: namesOf(`\`onFailure\` ${of}`, onFailure),
    continue_on_error: continueOnError,
  };
  reportPlace(spec, approval);
  return { kind: 'approval', name, spec };
}
