/** A step machine as a Mermaid flowchart. */
import type { GraphEdge, GraphStep, SkillGraph } from './skill-graph.ts';
import { EDGE_LABELS, notesOf } from './step-notes.ts';

/** Ways that may be taken are dashed. Sub-skills are subgraphs, and a way to one leads to its first step. */
export function toMermaid(graph: SkillGraph): string {
  return ['flowchart TD', ...linesOf(graph, 'm').map((line) => `  ${line}`), ''].join('\n');
}

/** Names in Mermaid must not be words of its own, so that nodes are called by numbers. */
function linesOf(graph: SkillGraph, id: string): readonly string[] {
  const ids = new Map(graph.steps.map(({ name }, index) => [name, `${id}_s${index}`]));
  const topics = new Map(graph.topics.map(({ name }, index) => [`topic:${name}`, `${id}_t${index}`]));
  const subskills = new Map(graph.subskills.map((sub, index) => [sub.name, { ...sub, id: `${id}_g${index}` }]));
  const [end, anywhere] = [`${id}_end`, `${id}_any`];
  const entryOf = (name: string): string | undefined => {
    const sub = subskills.get(name);
    const index = sub?.graph.steps.findIndex(({ isEntry }) => isEntry) ?? -1;
    return index < 0 ? undefined : `${sub!.id}_s${index}`;
  };
  const target = ({ to, kind }: GraphEdge): string => {
    if (to === null) return kind === 'unknown' ? anywhere : end;
    return (
      ids.get(to) ??
      topics.get(to) ??
      (to.startsWith('subskill:') ? entryOf(to.slice('subskill:'.length)) : undefined) ??
      anywhere
    );
  };
  const used = new Set(graph.edges.map(target));
  const entry = graph.steps.find(({ isEntry }) => isEntry);
  return [
    `${id}_start(["start"])`,
    ...graph.steps.map((step) => ids.get(step.name) + shape(step)),
    ...graph.topics.map(({ name, label }) => `${topics.get(`topic:${name}`)}>${quoteLabel([`topic ${name}`, label])}]`),
    ...(used.has(end) ? [`${end}(["end"])`] : []),
    ...(used.has(anywhere) ? [`${anywhere}{{${quoteLabel(['any step'])}}}`] : []),
    // Comes before the edges into them, because Mermaid puts a node where its name occurs first.
    ...[...subskills.values()].flatMap((sub) => [
      `subgraph ${sub.id}[${quoteLabel([`sub-skill ${sub.name}`])}]`,
      ...linesOf(sub.graph, sub.id).map((line) => `  ${line}`),
      'end',
    ]),
    ...(entry === undefined ? [] : [`${id}_start --> ${ids.get(entry.name)}`]),
    ...graph.edges.map((edge) => `${ids.get(edge.from)} ${arrow(edge)} ${target(edge)}`),
    ...graph.steps.flatMap(({ name, call }) =>
      call === null || entryOf(call) === undefined
        ? []
        : [`${ids.get(name)} <-.->|${quoteLabel(['calls'])}| ${entryOf(call)}`],
    ),
  ];
}

function arrow({ kind }: GraphEdge): string {
  const label = EDGE_LABELS[kind];
  const line = kind === 'possible' || kind === 'unknown' ? '-.->' : '-->';
  return label === '' ? line : `${line}|${quoteLabel([label])}|`;
}

function shape(step: GraphStep): string {
  const label = quoteLabel([step.name, ...notesOf(step)]);
  if (step.human !== null) return `[/${label}/]`;
  if (step.joinsAt !== null) return `{{${label}}}`;
  if (step.call !== null) return `[[${label}]]`;
  if (step.wait !== null) return `(${label})`;
  return `[${label}]`;
}

/** Names are an author's: what Mermaid or its renderer would read as markup is written by number. */
function quoteLabel(lines: readonly string[]): string {
  const escaped = lines.map((line) =>
    [...line]
      .map((character) => (/[\p{L}\p{N} .,:;()/_+=-]/u.test(character) ? character : `#${character.codePointAt(0)};`))
      .join(''),
  );
  return `"${escaped.join('<br/>')}"`;
}
