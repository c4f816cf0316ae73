/** A plan as a graph: what each stage does, what it waits for, and the VM that it happens in. */
import { describeEgress } from '../../../domain/plan/egress.ts';
import type { EdgeCondition, OutputPlan, Plan, ScopePlan, StagePlan } from '../../../domain/plan/plan.ts';
import { describeStageWork } from '../../../domain/plan/work.ts';
import { describeWorkspace } from '../../../domain/plan/workspace.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { writeDurationMs } from '../../../domain/units/duration.ts';
import { renderBudget } from '../runs/budget.ts';
import { budgetFacts, itemFacts, listOf, secretFacts } from './plan-facts.ts';
import { type PlanGroup as Group, groupsOf } from './plan-groups.ts';
import type { Style } from '../text/style.ts';
import { padEnd } from '../text/width.ts';

const EDGE: Readonly<Record<EdgeCondition, string>> = { success: '', end: 'the end of ', failure: 'a failure of ' };

/** Stages by the part that they belong to and the VM that they happen in, in the plan's order. */
export function renderPlanGraph(plan: Plan, style: Style): string {
  const width = Math.max(...plan.stages.map(({ id }) => id.length));
  const linesIn = (group: Group, indent: string): readonly string[] => {
    const line = (stage: StagePlan): string =>
      `${indent}  ${padEnd(stage.id, width)}  ${[renderWork(stage, 60), ...facts(stage)].join(style.dim(' · '))}`;
    const renderTitled = (title: string, stages: readonly StagePlan[]): readonly string[] =>
      stages.length === 0 ? [] : ['', `${indent}${style.cyan(title)}`, ...stages.map(line)];
    return [
      ...group.scopes.flatMap(({ scope, stages }) => renderTitled(vm(scope), stages)),
      ...renderTitled('without a VM', group.outside),
      ...group.parts.flatMap((part) => ['', `${indent}${style.bold(part.title)}`, ...linesIn(part, `${indent}  `)]),
    ];
  };
  return [
    `${plan.kind} ${style.bold(plan.name)}`,
    ...linesIn(groupsOf(plan), ''),
    '',
    `result: ${result(plan.output)}`,
    ...(plan.budget === undefined
      ? []
      : [`budget of all agents: ${renderBudget({ limits: plan.budget, used: null })}`]),
    '',
  ].join('\n');
}

function vm({
  sandbox: { mode, isolation, memoryMib, vcpus, mounts, egress, keepOnFailureMs, start, prepared },
}: ScopePlan): string {
  const parts = [
    mode === 'mock' ? 'simulated, no VM' : `VM (${isolation}${mode === 'auto' ? '' : `, ${mode}`})`,
    ...(mode === 'mock' ? [] : [`${memoryMib} MiB`, vcpus === 1 ? '1 vCPU' : `${vcpus} vCPUs`]),
    ...mounts.map((mount) => `${sanitizeLine(mount.source.path)} at ${sanitizeLine(mount.guestPath)} (${mount.mode})`),
    describeEgress(egress),
    ...(start === 'cold' ? ['boots without a snapshot'] : []),
    ...(prepared === undefined ? [] : [`starts from ${sanitizeLine(prepared)}`]),
    ...(keepOnFailureMs === undefined ? [] : [`left for ${writeDurationMs(keepOnFailureMs)} if a stage fails`]),
  ];
  return parts.join(', ');
}

function renderWork(stage: StagePlan, most: number): string {
  return shortenText(sanitizeLine(describeStageWork(stage)), most);
}

function shortenText(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function facts(stage: StagePlan): readonly string[] {
  const {
    after,
    when,
    inputs,
    outputs,
    outputSchema,
    retry,
    continueOnError,
    mock,
    finally: isLast,
    workspace,
  } = stage;
  const list = listOf(stage);
  return [
    ...(list === null ? [] : [shortenText(list, 60), ...itemFacts(stage)]),
    ...(after.length === 0 ? [] : [`after ${after.map((edge) => `${EDGE[edge.on]}${edge.stage}`).join(', ')}`]),
    ...(isLast === true ? ['after all others, in any case'] : []),
    ...(when === null ? [] : [`when ${shortenText(sanitizeLine(when.source), 60)}`]),
    ...(workspace === undefined ? [] : [shortenText(sanitizeLine(describeWorkspace(workspace)), 80)]),
    ...inputs.map(({ fromStage, output }) => `takes ${fromStage}.${output}`),
    ...(outputs.length === 0 ? [] : [`leaves ${outputs.map(({ name }) => name).join(', ')}`]),
    ...secretFacts(stage),
    ...budgetFacts(stage),
    ...(outputSchema === undefined ? [] : ['its output has a schema']),
    ...(retry.maxAttempts === 1 ? [] : [`${retry.maxAttempts} attempts`]),
    ...(continueOnError === true ? ['its failure is tolerated'] : []),
    ...(mock === undefined ? [] : ['has a mock']),
  ];
}

function result(output: OutputPlan): string {
  return output.kind === 'stage'
    ? `the output of ${output.stage}`
    : `the outputs of ${output.stages.join(', ')}, merged`;
}

/** A flowchart for Markdown. Names must not be words of Mermaid, so nodes are called by numbers. */
export function planToMermaid(plan: Plan): string {
  const ids = new Map(plan.stages.map(({ id }, index) => [id, `s${index}`]));
  const node = (stage: StagePlan): string => {
    const condition = stage.when === null ? [] : [`when ${shortenText(sanitizeLine(stage.when.source), 40)}`];
    const list = listOf(stage);
    const each = list === null ? [] : [shortenText(list, 40)];
    const last = stage.finally === true ? ['after all others, in any case'] : [];
    const label = quoteLabel([stage.id, renderWork(stage, 40), ...each, ...condition, ...last]);
    const id = ids.get(stage.id)!;
    return stage.scope === null ? `${id}{{${label}}}` : `${id}[${label}]`;
  };
  const results = plan.output.kind === 'stage' ? [plan.output.stage] : plan.output.stages;
  let groups = 0;
  let vms = 0;
  const nodesIn = (group: Group): readonly string[] => [
    ...group.scopes.flatMap(({ scope, stages }) => [
      `subgraph v${vms++}[${quoteLabel([vm(scope)])}]`,
      ...stages.map((stage) => `  ${node(stage)}`),
      'end',
    ]),
    ...group.outside.map(node),
    ...group.parts.flatMap((part) => [
      `subgraph p${groups++}[${quoteLabel([part.title])}]`,
      ...nodesIn(part).map((line) => `  ${line}`),
      'end',
    ]),
  ];
  const lines = [
    ...nodesIn(groupsOf(plan)),
    ...plan.stages.flatMap(({ id, after }) =>
      after.map(({ stage, on }) =>
        on === 'success' ? `${ids.get(stage)!} --> ${ids.get(id)!}` : `${ids.get(stage)!} -. ${on} .-> ${ids.get(id)!}`,
      ),
    ),
    `result([${quoteLabel(['result'])}])`,
    ...results.map((stage) => `${ids.get(stage)!} --> result`),
  ];
  return ['flowchart TD', ...lines.map((each) => `  ${each}`), ''].join('\n');
}

/** Everything that could end the text, or be markup in it, as its number. */
function quoteLabel(lines: readonly string[]): string {
  const escaped = lines.map((line) =>
    [...line]
      .map((character) => (/[\p{L}\p{N} .,:;()/_+=-]/u.test(character) ? character : `#${character.codePointAt(0)};`))
      .join(''),
  );
  return `"${escaped.join('<br/>')}"`;
}
