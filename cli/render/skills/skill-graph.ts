import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { GraphEdge, GraphStep, SkillGraph } from '../../../skill-kit/graph/skill-graph.ts';
import { EDGE_LABELS, notesOf } from '../../../skill-kit/graph/step-notes.ts';
import type { Style } from '../text/style.ts';
import { displayWidth, padEnd } from '../text/width.ts';

/** One line a step, below it one for each way out; `▶` is the first step, `■` one that can end the step machine, `↺` leads back. */
export function renderSkillGraph(graph: SkillGraph, style: Style): string {
  return `${draw(graph, style, `${style.bold(sanitizeLine(graph.name))} ${sanitizeLine(graph.version)}`).join('\n')}\n`;
}

function draw(graph: SkillGraph, style: Style, title: string): readonly string[] {
  const width = Math.max(0, ...graph.steps.map(({ name }) => displayWidth(sanitizeLine(name))));
  return [
    `${title}: ${graph.steps.length} ${graph.steps.length === 1 ? 'step' : 'steps'}`,
    ...graph.steps.flatMap((step) => [
      `${mark(step, style)} ${padEnd(style.bold(sanitizeLine(step.name)), width)}  ${style.dim(sanitizeLine(notesOf(step).join(', ')))}`.trimEnd(),
      ...waysOut(
        graph.edges.filter(({ from }) => from === step.name),
        style,
      ),
    ]),
    ...(graph.topics.length === 0 ? [] : [`topics: ${graph.topics.map(({ name }) => sanitizeLine(name)).join(', ')}`]),
    ...(graph.env.length === 0 ? [] : [`variables: ${graph.env.map((name) => sanitizeLine(name)).join(', ')}`]),
    ...graph.subskills.flatMap((sub) => {
      const own = sub.name === sub.graph.name ? '' : ` (${sanitizeLine(sub.graph.name)})`;
      return [
        '',
        ...draw(
          sub.graph,
          style,
          `sub-skill ${style.bold(sanitizeLine(sub.name))}${own} ${sanitizeLine(sub.graph.version)}`,
        ).map((line) => `  ${line}`.trimEnd()),
      ];
    }),
  ];
}

function mark({ isEntry, isTerminal, isReachable }: GraphStep, style: Style): string {
  if (!isReachable) return style.yellow('✗');
  return isEntry ? style.green('▶') : isTerminal ? style.red('■') : '○';
}

function waysOut(edges: readonly GraphEdge[], style: Style): readonly string[] {
  // The step's mark says it.
  if (edges.length === 1 && edges[0]!.to === null && edges[0]!.kind === 'next') return [];
  const labels = edges.map(({ kind }) => (kind === 'unknown' ? 'may' : EDGE_LABELS[kind]));
  const width = Math.max(0, ...labels.map((label) => label.length));
  return edges.map((edge, index) => {
    const line = edge.kind === 'possible' || edge.kind === 'unknown' ? '╌' : '─';
    const corner = index === edges.length - 1 ? '└' : '├';
    const label =
      width === 0
        ? ''
        : labels[index] === ''
          ? `${'─'.repeat(width)} `
          : `${padEnd(style.cyan(labels[index]!), width)} `;
    return `  ${corner}${line}${labels[index] === '' && width > 0 ? '─' : ' '}${label}${edge.isBack ? style.yellow('↺') : '→'} ${targetText(edge, style)}`;
  });
}

function targetText({ to, kind }: GraphEdge, style: Style): string {
  if (to !== null) return sanitizeLine(to);
  return kind === 'unknown' ? style.dim('any step, decided at run time') : style.red('end');
}
