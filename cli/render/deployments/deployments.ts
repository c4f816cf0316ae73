/** Texts of deployments: their list, one of them, and the answer to `deploy`. */
import type { DeployResult } from '../../../app/deployments/deploy.ts';
import type { DeploymentJson, ShownDeployment, TriggerProblem, VersionJson } from '../../../app/deployments/manage.ts';
import type { NamedChanges } from '../../../app/deployments/compare-versions.ts';
import { describeCronLine } from '../../../domain/delivery/cron-line.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import { describeReceivers, renderEventSecrets } from '../spec/triggers.ts';
import type { Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

interface Layout {
  readonly style: Style;
  readonly width: number;
  readonly nowMs: number;
}

export function renderDeployments(
  deployments: readonly DeploymentJson[],
  { style, width, nowMs }: Layout,
): readonly string[] {
  const rows = deployments.map((deployment) => [
    sanitizeLine(deployment.name),
    String(deployment.version),
    describeState(deployment, style),
    describeTriggers(deployment.enabled),
    formatAge(nowMs - deployment.changedAtMs),
  ]);
  return renderTable(['NAME', 'VERSION', 'STATE', 'TRIGGERS', 'CHANGED'], rows, { style, width });
}

export function renderDeployment(shown: ShownDeployment, layout: Layout): readonly string[] {
  const { enabled, versions } = shown;
  const facts: readonly (readonly [string, string])[] = [
    ['deployment', sanitizeLine(shown.name)],
    ['state', describeState(shown, layout.style)],
    ['version', String(shown.version)],
    ['spec', `${sanitizeLine(enabled.specName)}, ${countNoun(enabled.stages.length, 'stage')}`],
    ['triggers', describeTriggers(enabled)],
    ...(enabled.notify.receivers.length === 0
      ? []
      : ([['receivers', describeReceivers(enabled.notify.receivers)]] as const)),
    ['secrets', listNames(enabled.secrets)],
    ...(enabled.params.length === 0 ? [] : ([['parameters', listNames(enabled.params)]] as const)),
    ...(enabled.mockAgents ? ([['agents', layout.style.yellow('played by the mock agent')]] as const) : []),
    ...(enabled.allowGit.length === 0 ? [] : ([['may fetch', listNames(enabled.allowGit)]] as const)),
  ];
  const { style, width, nowMs } = layout;
  const rows = versions.map((each) => [
    `${each.version}${each.version === shown.version ? ' (enabled)' : ''}`,
    formatAge(nowMs - each.createdAtMs),
    each.deployer === null ? 'the owner' : sanitizeLine(each.deployer),
    describeTriggers(each),
  ]);
  return [
    ...facts.map(([name, value]) => `${name.padEnd('deployment'.length)}  ${value}`),
    ...renderAbsent(shown.absentUpstreams, style),
    ...shown.queues.flatMap((queue) => renderQueue(queue, layout)),
    ...shown.problems.map((problem) => renderProblem(problem, layout)),
    '',
    ...renderTable(['VERSION', 'DEPLOYED', 'BY', 'TRIGGERS'], rows, { style, width }),
  ];
}

function renderQueue(
  { trigger, state, code, message, sinceMs }: ShownDeployment['queues'][number],
  { style, nowMs }: Layout,
): readonly string[] {
  const colored =
    state === 'faulty' ? style.red(state) : state === 'reading' ? style.green(state) : style.yellow(state);
  const why = code === null ? [] : [`            ${sanitizeLine(`${code}: ${message ?? ''}`)}`];
  return [`queue       ${sanitizeLine(trigger)}: ${colored}, since ${formatAge(nowMs - sinceMs)}`, ...why];
}

function renderProblem({ trigger, code, message, sinceMs }: TriggerProblem, { style, nowMs }: Layout): string {
  const since = `since ${formatAge(nowMs - sinceMs)}`;
  return `${style.red('problem'.padEnd('deployment'.length))}  ${sanitizeLine(`${trigger}: ${message} (${code}, ${since})`)}`;
}

export function renderDeployed(
  { name, version, isNew, isPaused, changes, triggers, notify, absentUpstreams }: DeployResult,
  { isDry, style }: { readonly isDry: boolean; readonly style: Style },
): readonly string[] {
  const shown = sanitizeLine(name);
  const lines = [
    ...renderChanges('stage', changes.stages, style),
    ...renderChanges('trigger', changes.triggers, style, (trigger) => describeSource(triggers, name, trigger)),
    ...changes.others.map((what) => `  ${style.yellow('~')} ${OTHERS[what]}`),
  ];
  if (!isNew) return [`${shown} is at this version already${version === null ? '' : `: version ${version}`}`];
  const heading = isDry
    ? `${shown} would get a new version:`
    : `deployed ${shown}, version ${version}${isPaused ? ', paused' : ''}`;
  const hint = !isDry && triggers.length === 0 ? ['it has no trigger: start its runs with `voidbox trigger`'] : [];
  return [
    heading,
    ...lines,
    ...renderEventSecrets(triggers, notify).map((line) => `  ${line}`),
    ...hint,
    ...renderAbsent(absentUpstreams, style),
  ];
}

/** @param names  of deployments that do not exist */
function renderAbsent(names: readonly string[], style: Style): readonly string[] {
  return names.map((name) =>
    style.yellow(
      `it follows ${sanitizeLine(name)}, which does not exist: the trigger waits for nothing until you deploy it`,
    ),
  );
}

const OTHERS = {
  files: 'files of the spec',
  params: 'parameters',
  mockAgents: 'whether the mock agent plays the agents',
  notify: 'notifications',
  allowMounts: 'folders of the host that it may mount',
  allowGit: 'repositories that it may fetch',
} as const;

function renderChanges(
  noun: string,
  { added, removed, changed }: NamedChanges,
  style: Style,
  describe: (name: string) => string = () => '',
): readonly string[] {
  const renderLine = (mark: string, name: string): string =>
    `  ${mark} ${noun} ${sanitizeLine(name)}${sanitizeLine(describe(name))}`;
  return [
    ...added.map((name) => renderLine(style.green('+'), name)),
    ...removed.map((name) => renderLine(style.red('-'), name)),
    ...changed.map((name) => renderLine(style.yellow('~'), name)),
  ];
}

/** Returns when a schedule starts, where a webhook listens, and for any other trigger its kind; empty for a removed one. */
function describeSource(triggers: DeployResult['triggers'], deployment: string, name: string): string {
  const source = triggers.find((trigger) => trigger.name === name)?.source;
  if (source === undefined) return '';
  if (source.kind === 'webhook')
    return ` (webhook: POST /hooks/${encodeURIComponent(deployment)}/${encodeURIComponent(name)} of the service)`;
  if (source.kind !== 'schedule') return ` (${source.kind})`;
  const { cron, everyMs, timezone } = source;
  const times = `${cron.map(describeCronLine).join(', ')} ${timezone}`;
  return ` (schedule: ${everyMs === null ? times : `every ${formatDurationMs(everyMs)}`})`;
}

function describeState({ isPaused, onPause }: Pick<DeploymentJson, 'isPaused' | 'onPause'>, style: Style): string {
  if (!isPaused) return style.green('enabled');
  return style.yellow(`paused, deliveries ${onPause === 'hold' ? 'held' : 'dropped'}`);
}

function describeTriggers({ triggers }: Pick<VersionJson, 'triggers'>): string {
  const named = triggers.map(({ name, source }) => `${name} (${source.kind})`);
  return named.length === 0 ? 'none' : sanitizeLine(named.join(', '));
}

function listNames(names: readonly string[]): string {
  return names.length === 0 ? 'none' : sanitizeLine(names.join(', '));
}

function countNoun(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
