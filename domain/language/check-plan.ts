/** Checks a plan from outside. */
import { machineBytes, machinePlanOf } from '../pipeline/machine-plan.ts';
import { type Plan, PLAN_LIMITS } from '../plan/plan.ts';
import { fromWire, countPlanBytes, type PlanWire } from '../plan/wire.ts';
import { findCheckpointPlanProblems } from './problems/checkpoints.ts';
import { findItemPartProblems, findOwnerProblems } from './problems/item-parts.ts';
import { findLoopProblems } from './problems/loops.ts';
import { findToleratedPartProblems } from './problems/tolerated-parts.ts';
import { findServicePlanProblems, findServiceProblems } from './problems/services.ts';
import { findWorkspaceProblems } from './problems/workspaces.ts';
import { findOutputNameProblems } from './link/output-names.ts';
import {
  findDuplicateProblems,
  findReferenceProblems,
  findScopeProblems,
  findVariableProblems,
} from './problems/references.ts';
import { findConditionProblems, findTextProblems } from './problems/expressions.ts';
import { findFinallyProblems } from './problems/finally.ts';
import { findItemProblems } from './problems/items.ts';
import { findPartProblems } from './problems/parts.ts';
import { mountProblems } from './problems/mounts.ts';
import { countJsonBytes } from './plan-value-rules.ts';
import { planSchema } from './plan-schema.ts';

/** The most problems that a check returns. */
const PROBLEMS_LIMIT = 50;

/** A plan with its defaults is larger than necessary. */
const RECEIVED_BYTES = 2 * PLAN_LIMITS.planBytes;

/**
 * Checks a plan from outside completely: shape, limits, references, cycles, mounts. It may leave out values that equal
 * a default. The run machine and the activities run a plan that passes without a further check.
 * @returns the plan, or at most `PROBLEMS_LIMIT` problems, each with its path
 */
export function checkPlan(value: unknown): { readonly plan: Plan } | { readonly problems: readonly string[] } {
  const size = countJsonBytes(value);
  if (size === null) return { problems: ['the plan is not JSON'] };
  if (size > RECEIVED_BYTES) return { problems: [describeTooLarge(size)] };
  const parsed = planSchema.safeParse(value);
  if (!parsed.success)
    return {
      problems: parsed.error.issues
        .slice(0, PROBLEMS_LIMIT)
        .map(({ path, message }) => `${path.join('.') || 'plan'}: ${message}`),
    };
  const received: PlanWire = parsed.data;
  const checked = fromWire(received);
  const bytes = countPlanBytes(checked);
  if (bytes > PLAN_LIMITS.planBytes) return { problems: [describeTooLarge(bytes)] };
  const strays = [...findDuplicateProblems(checked), ...findOwnerProblems(checked)];
  if (strays.length > 0) return { problems: strays.slice(0, PROBLEMS_LIMIT) };
  const held = machineBytes(machinePlanOf(checked));
  if (held > PLAN_LIMITS.machineBytes)
    return {
      problems: [
        `the names and edges of the plan's stages have ${held} bytes; at most ${PLAN_LIMITS.machineBytes} are allowed`,
      ],
    };
  const problems = [
    ...findOutputNameProblems(checked).map(({ message }) => message),
    ...findScopeProblems(checked),
    ...findItemProblems(checked),
    ...findItemPartProblems(checked),
    ...findPartProblems(checked),
    ...findLoopProblems(checked),
    ...findToleratedPartProblems(checked),
    ...findReferenceProblems(checked),
    ...mountProblems(checked),
    ...findVariableProblems(checked),
    ...findConditionProblems(checked),
    ...findTextProblems(checked),
    ...findFinallyProblems(checked),
    ...findWorkspaceProblems(checked),
    ...findCheckpointPlanProblems(checked),
    ...findServicePlanProblems(checked),
    ...findServiceProblems(checked).map(({ message }) => message),
  ];
  return problems.length > 0 ? { problems: problems.slice(0, PROBLEMS_LIMIT) } : { plan: checked };
}

function describeTooLarge(bytes: number): string {
  return `the plan has ${bytes} bytes; at most ${PLAN_LIMITS.planBytes} are allowed`;
}
