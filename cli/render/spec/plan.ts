import type { Plan, StagePlan } from '../../../domain/plan/plan.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { isSharedScope } from '../../../domain/plan/scope.ts';
import { describeStageWork } from '../../../domain/plan/work.ts';
import { demandedVariablesOf } from '../../../domain/plan-rules/variables.ts';
import { listOf } from './plan-facts.ts';
import type { Style } from '../text/style.ts';
import { padEnd } from '../text/width.ts';

/** Renders the summary of a valid spec: its stages in order, what each waits for, and the VM that it runs in. */
export function renderPlanSummary(file: string, plan: Plan, { style }: { readonly style: Style }): string {
  const vms = plan.scopes.length === 1 ? '1 VM' : `${plan.scopes.length} VMs`;
  const stages = plan.stages.length === 1 ? '1 stage' : `${plan.stages.length} stages`;
  const shared = new Set(plan.scopes.filter(isSharedScope).map((scope) => scope.id));
  const nameWidth = Math.max(...plan.stages.map((stage) => stage.id.length));
  const lines = plan.stages.map((stage) => `  ${padEnd(stage.id, nameWidth)}  ${style.dim(describe(stage, shared))}`);
  return [
    `${style.green('valid:')} ${sanitizeLine(file)} (${plan.kind} ${style.bold(plan.name)}, ${stages}, ${vms})`,
    ...lines,
    ...(plan.hostVariables.length === 0 ? [] : [renderHostVariables(plan)]),
    '',
  ].join('\n');
}

function renderHostVariables({ hostVariables, stages }: Plan): string {
  const demanded = new Set(demandedVariablesOf(stages).map(({ name }) => name));
  const shown = hostVariables.map((name) => (demanded.has(name) ? name : `${name} (may be unset)`));
  return `variables of the host: ${shown.join(', ')}`;
}

const EDGE = { success: '', end: 'the end of ', failure: 'a failure of ' } as const;

function describe(stage: StagePlan, shared: ReadonlySet<string>): string {
  const short = shortenText(sanitizeLine(describeStageWork(stage)));
  const after = stage.finally
    ? ', after all others, in any case'
    : stage.after.length > 0
      ? `, after ${stage.after.map(({ stage: earlier, on }) => `${EDGE[on]}${earlier}`).join(', ')}`
      : '';
  const where = stage.scope === null || shared.has(stage.scope) ? '' : ', in its own VM';
  const when = stage.when === null ? '' : `, when ${shortenText(sanitizeLine(stage.when.source))}`;
  const list = listOf(stage);
  const each = list === null ? '' : `, ${shortenText(list)}`;
  return `${short}${each}${after}${when}${each === '' || stage.scope === null ? where : ', each in a VM of its own'}`;
}

function shortenText(text: string): string {
  return text.length > 48 ? `${text.slice(0, 47)}…` : text;
}
