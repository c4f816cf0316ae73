/** Boxes of a pipeline that belong together: side by side, or again and again. */
import { FAN_OUT_OPTIONS, LOOP_OPTIONS } from '../known-options.ts';
import { checkList, checkOptions, nameOf } from '../options.ts';
import type { Approval, Box, FanOut, Loop, LoopOptions, Part, SpecObject, Wait } from './stage.ts';

/** Boxes that run side by side. The next stage finds `[{"name", "output"}, …]` of them as its input; after the last stage it is the run's result. */
export function fanOut(
  boxes: readonly (Box | Approval | Wait | Part)[],
  options: { readonly name?: string } = {},
): FanOut {
  const { name } = options;
  const what = name === undefined ? 'a fan-out' : `fan-out "${name}"`;
  checkOptions(`options of ${what}`, options, FAN_OUT_OPTIONS);
  checkBoxes(what, boxes);
  return { kind: 'fan-out', name, boxes };
}

/**
 * Boxes that run one after the other, again and again until a condition holds. The input of the first box is the output of the
 * visit before; the input of the stage after the loop is the output of the last visit.
 */
export function loop(name: string, boxes: readonly (Box | Approval | Wait | Part)[], options: LoopOptions): Loop {
  checkOptions(`options of loop "${name}"`, options, LOOP_OPTIONS);
  checkBoxes(`loop "${name}"`, boxes);
  return { kind: 'loop', name, boxes, options };
}

function checkBoxes(what: string, boxes: readonly { readonly name: string }[]): void {
  checkList(`boxes of ${what}`, boxes);
  for (const each of boxes) nameOf(`a box of ${what}`, each);
}

export function writeLoop({ name, boxes, options }: Loop): SpecObject {
  const { until, maxVisits, onLimit } = options;
  return { type: 'loop', name, boxes: boxes.map((each) => each.name), until, max_visits: maxVisits, on_limit: onLimit };
}
