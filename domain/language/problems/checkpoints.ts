/** Checks scopes whose disk is saved after each step: a save must hold everything that later steps need. */
import type { Plan } from '../../plan/plan.ts';
import { isService } from '../../plan/work.ts';
import { quote } from '../../units/quote.ts';
import { writableIn } from './list-limits.ts';

export interface CheckpointProblem {
  readonly scope: string;
  readonly message: string;
  readonly remedy: string;
}

export function findCheckpointProblems({ stages, scopes }: Plan): readonly CheckpointProblem[] {
  return scopes.flatMap(({ id, stages: held, checkpoint }): readonly CheckpointProblem[] => {
    if (checkpoint === undefined) return [];
    const mount = writableIn(scopes, id);
    const members = new Set(held);
    const service = stages.find((stage) => members.has(stage.id) && isService(stage.work));
    return [
      ...(mount === undefined
        ? []
        : [
            {
              scope: id,
              message: `\`checkpoint: each-step\` is not possible with the writable mount ${quote(mount)}: a checkpoint does not hold the host's side of it`,
              remedy:
                'mount it with `mode: ro`, give the step that writes it a `sandbox` of its own, or remove `checkpoint`',
            },
          ]),
      ...(service === undefined
        ? []
        : [
            {
              scope: id,
              message: `\`checkpoint: each-step\` is not possible with the service ${quote(service.id)}: its VM has no moment without a command`,
              remedy: 'give the service a `sandbox` of its own, or remove `checkpoint`',
            },
          ]),
    ];
  });
}

/** Checks the scopes of a plan from outside. */
export function findCheckpointPlanProblems(checked: Plan): readonly string[] {
  const alone = checked.scopes.filter(({ checkpoint, stages }) => checkpoint !== undefined && stages.length === 1);
  return [
    ...alone.map(({ id }) => `scope ${id} has a checkpoint, which needs several stages, but has one`),
    ...findCheckpointProblems(checked).map(({ scope, message }) => `scope ${scope}: ${message}`),
  ];
}
