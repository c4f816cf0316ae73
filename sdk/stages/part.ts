/** Other specs as stages of this one. */
import { PART_OPTIONS } from '../known-options.ts';
import { checkOptions, namesOf } from '../options.ts';
import { reportPlace } from '../places.ts';
import { writeForEach, writeJsonSchema, type Mock, writeMock, type OutputSchema } from './common-options.ts';
import type { Items } from './items.ts';
import type { Approval, DefinedPart, Part, Step, Wait } from './stage.ts';
import type { ParamValue } from './values.ts';

export interface PartOptions {
  /** Values for the parameters of the spec. Placeholders are filled in. */
  readonly with?: Readonly<Record<string, ParamValue>>;
  /** As for a step or box. */
  readonly when?: string;
  /** In a workflow; a pipeline has its order. */
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** In a workflow: it starts when one of these has failed. */
  readonly onFailure?: readonly (Step | Approval | Wait | Part)[];
  /** Schema of its output as JSON, or of the output of each item: any Standard Schema that exports JSON Schema. */
  readonly outputSchema?: OutputSchema;
  /** The failure of the whole part is tolerated: stages that depend on it still start, and the run can succeed. */
  readonly continueOnError?: boolean;
  /** The result of the whole part in a run with `--mock`; without `--mock` it has no effect. */
  readonly mock?: Mock;
  /** The part runs once for each item of this list; its output is the list of results. */
  readonly forEach?: Items;
  /** With `forEach`: items at the same time. Default: the definition's `maxParallel`. */
  readonly maxParallel?: number;
  /** With `forEach`: once more items have failed than `allowFailures`, the others end. Default: false. */
  readonly failFast?: boolean;
  /** With `forEach`: the part succeeds if at most this many items fail. Default: 0. */
  readonly allowFailures?: number;
}

/**
 * Another spec as a step of a workflow or a box of a pipeline. The names of its stages follow the name of the part and a dot.
 * @param uses  a definition, or a YAML or JSON file, from the folder of the definition: `./review.yaml`, or a part of it: `./review.yaml#checks`
 */
export function part(name: string, uses: string | DefinedPart, options: PartOptions = {}): Part {
  const of = `of part "${name}"`;
  checkOptions(`options ${of}`, options, PART_OPTIONS);
  const { with: values, when, dependsOn, onFailure, continueOnError, outputSchema, mock } = options;
  const spec = {
    name,
    when,
    uses,
    with: values,
    ...writeForEach(options, of),
    output_schema: writeJsonSchema(outputSchema),
    mock: writeMock(mock, of),
    depends_on: namesOf(`\`dependsOn\` ${of}`, dependsOn),
    on_failure: namesOf(`\`onFailure\` ${of}`, onFailure),
    continue_on_error: continueOnError,
  };
  reportPlace(spec, part);
  return { kind: 'part', name, spec };
}
