import { formatBytes } from '../../../domain/units/bytes.ts';
import { describeOrigin } from '../../../domain/run/origin.ts';
import type { RunTrigger } from '../../../domain/run/run-trigger.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import type { RunView } from '../../../store/run-view.ts';
import { paintOutcome, renderToleratedNote } from '../../../app/lines/event-lines.ts';
import { type Advise, renderFailures, renderNextSteps } from './run-end.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { quoteRunId } from '../../../domain/run/run-id.ts';
import { renderCommand } from '../../../app/runs/run-id.ts';
import type { StageFacts } from '../../../app/runs/stage-facts.ts';
import { networkOfRun, renderNetwork } from '../../../app/lines/network.ts';
import { renderPartial } from './partial-outputs.ts';
import { renderQuestions } from '../../../app/lines/questions.ts';
import { agentTotals } from '../../../app/json/agent-totals.ts';
import { mockAgentsText, renderTotals } from './agent-usage.ts';
import { budgetOfRun } from '../../../app/json/budget-json.ts';
import { renderBudget } from './budget.ts';
import { renderItemAgents } from './item-agents.ts';
import { renderMockedCount, renderStages } from './stages.ts';
import { describeVmFacts, describeVmLimits } from '../../../app/lines/vm-facts.ts';
import type { Style } from '../text/style.ts';
import { padEnd } from '../text/width.ts';

/** `voidbox status`: facts about the run, its stages, its VMs, what is to be known, and how it failed. */
export function renderStatus(
  view: RunView,
  options: {
    readonly style: Style;
    readonly width: number;
    readonly nowMs: number;
    readonly advise: Advise;
    readonly folder: string | null;
    readonly facts?: ReadonlyMap<string, StageFacts>;
  },
): string[] {
  const { style, nowMs, advise, folder } = options;
  const facts: [string, string][] = [
    ['run', sanitizeLine(view.runId)],
    // A run that admission refused has neither a spec nor a host.
    ...(view.name === ''
      ? []
      : [['spec', `${sanitizeLine(view.name)} (${sanitizeLine(view.kind)})`] as [string, string]]),
    ...(view.trigger === null ? [] : [['delivery', renderTrigger(view.trigger)] as [string, string]]),
    ...(view.trigger === null ? [] : renderEventIds(view.trigger)),
    ...(view.origin === null ? [] : [['from', sanitizeLine(describeOrigin(view.origin))] as [string, string]]),
    ...(view.mocked.length === 0 ? [] : [['mocked', style.yellow(renderMockedCount(view))] as [string, string]]),
    ...(view.mockAgents.length === 0
      ? []
      : [['agents', style.yellow(`played by the mock agent: ${mockAgentsText(view)}`)] as [string, string]]),
    ['state', `${paintOutcome(view.state, style)}${renderToleratedNote(view.outcome)}`],
    ...(view.hostId === '' ? [] : [['host', sanitizeLine(view.hostId)] as [string, string]]),
  ];
  if (view.startedAtMs !== null)
    facts.push(['started', `${new Date(view.startedAtMs).toISOString()} (${formatAge(nowMs - view.startedAtMs)})`]);
  const until = view.finishedAtMs ?? (view.damage === null ? nowMs : null);
  if (view.startedAtMs !== null && until !== null) facts.push(['took', formatDurationMs(until - view.startedAtMs)]);
  const totals = agentTotals(view);
  if (totals !== null) facts.push(['tokens', renderTotals(totals)]);
  const budget = budgetOfRun(view);
  if (budget !== null) facts.push(['budget', renderBudget(budget)]);
  const network = networkOfRun(view);
  if (network !== null) {
    const where =
      network.refused === 0
        ? ''
        : ` ${style.dim(advise(`(${renderCommand('logs', view.runId, { options: '--network' })})`))}`;
    facts.push(['network', `${renderNetwork(network)}${where}`]);
  }
  const output = view.outcome?.output ?? null;
  if (output !== null)
    facts.push([
      'result',
      `${formatBytes(output.sizeBytes)} ${style.dim(advise(`(voidbox result ${quoteRunId(view.runId)})`))}`,
    ]);
  const damage = view.damage === null ? [] : renderDamage(view, view.damage, style, advise);
  const lines = [
    ...damage,
    ...facts.map(([name, value]) => `${style.dim(padEnd(name, 8))} ${value}`),
    // A run that admission refused has no stages.
    ...(view.stages.length === 0 ? [] : ['', ...renderStages(view, options)]),
    ...renderItemAgents(view, options),
    ...renderFailedItems(view, style),
    ...renderPartial(view, { style, advise }),
  ];
  lines.push(...renderQuestions(view, options), ...renderVms(view, style));
  for (const notice of view.notices)
    lines.push(
      notice.level === 'warning'
        ? style.yellow(`warning: ${sanitizeLine(notice.message)}`)
        : style.dim(sanitizeLine(notice.message)),
    );
  if (view.state === 'succeeded') return [...lines, ...renderFailures(view, { style, advise })];
  return view.state === 'failed' || view.state === 'terminated'
    ? [
        ...lines,
        ...renderFailures(view, { style, advise }),
        ...renderNextSteps(view, { style, advise, folder }, ['logs', 'retry']),
      ]
    : lines;
}

/** Renders the damage first, because the other lines contain only what could be read. */
function renderDamage(view: RunView, damage: string, style: Style, advise: Advise): string[] {
  return [
    style.red(sanitizeLine(damage)),
    `${style.cyan('help:')} ${advise(`restore that file from a backup, or move the run to damaged/: voidbox set-aside ${quoteRunId(view.runId)}`)}`,
    'Readable parts of the run:',
    '',
  ];
}

/** Which items failed, and how, of those that are kept in a view. */
function renderFailedItems(view: RunView, style: Style): string[] {
  return view.stages.flatMap(({ id, items }) => {
    if (items === null || items.failures.length === 0) return [];
    const lines = items.failures.map(
      ({ item, failure }) =>
        `${style.red('✗')} ${sanitizeLine(id)}[${item}]: ${sanitizeLine(failure.message)} ${style.dim(`(${sanitizeLine(failure.code)})`)}`,
    );
    const more = items.failed - items.failures.length;
    return [
      '',
      ...lines,
      ...(more > 0
        ? [style.dim(`  … and ${more} more failed ${more === 1 ? 'item' : 'items'} of ${sanitizeLine(id)}`)]
        : []),
    ];
  });
}

function renderStart({ start, pooled }: RunView['vms'][number]): string {
  if (pooled === true) return 'started from the pool';
  return start === 'snapshot' ? 'started from a snapshot' : 'booted';
}

function renderVms(view: RunView, style: Style): string[] {
  const seen = view.vms.filter((vm) => vm.isolation !== null);
  if (seen.length === 0) return [];
  const lines = seen.map((vm) => {
    const generation = vm.generation > 0 ? ` (generation ${vm.generation})` : '';
    const boot = vm.bootMs === null ? '' : `, ${renderStart(vm)} in ${formatDurationMs(vm.bootMs)}`;
    const disk = vm.resumedAfter === undefined ? '' : `, with the checkpoint after ${sanitizeLine(vm.resumedAfter)}`;
    const limits = vm.limits === undefined ? '' : `, limits of the host: ${describeVmLimits(vm.limits)}`;
    return style.dim(
      `vm ${sanitizeLine(vm.scope)}${generation}: ${vm.state}, ${describeVmFacts(vm)}${limits}${boot}${disk}${vm.reason === null ? '' : `: ${sanitizeLine(vm.reason)}`}`,
    );
  });
  return ['', ...lines];
}

function renderEventIds({ cloudEvent, traceparent }: RunTrigger): [string, string][] {
  return [
    ...(cloudEvent === undefined
      ? []
      : [['event', sanitizeLine(`${cloudEvent.id} of ${cloudEvent.source}`)] as [string, string]]),
    ...(traceparent === undefined ? [] : [['trace', sanitizeLine(traceparent)] as [string, string]]),
  ];
}

function renderTrigger({ deployment, version, delivery }: RunTrigger): string {
  return `${sanitizeLine(delivery)} of ${sanitizeLine(deployment)}, version ${version}`;
}
