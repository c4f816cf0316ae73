import type { Plan } from '../../plan/plan.ts';
import { partOf } from '../../plan/work.ts';
import { findRepeated } from '../text/repeated.ts';

/**
 * Checks the stage that ends a part: the part's stages exist and appear once. It has no field of a command, because
 * such a field would apply twice or never.
 */
export function findPartProblems({ stages }: Plan): readonly string[] {
  const ids = new Set(stages.map(({ id }) => id));
  return stages.flatMap(
    ({ id, work: one, loop, continueOnError, inputs, outputs, outputFile, retry: { maxAttempts } }) => {
      const ended = partOf(one);
      if (ended === null) return [];
      const merged = ended.output.kind === 'merge' ? ended.output.of : [];
      return [
        ...ended.stages
          .filter((each) => !ids.has(each) || each === id)
          .map((each) => `stage ${id} ends a part with the stage ${each}, which is not another stage of the plan`),
        ...findRepeated(ended.stages).map((twice) => `stage ${id} ends a part that has the stage ${twice} twice`),
        ...findRepeated(merged.map((each) => each.name)).map((twice) => `stage ${id} merges two outputs as ${twice}`),
        ...findRepeated(merged.map(({ stage: source }) => source)).map((twice) => `stage ${id} merges ${twice} twice`),
        ...((continueOnError === true && loop !== undefined) ||
        maxAttempts > 1 ||
        inputs.length + outputs.length > 0 ||
        outputFile !== null
          ? [`stage ${id} ends a part and has fields that only commands have`]
          : []),
      ];
    },
  );
}
