/** Rules that need the source alone, so that they speak even where the skill cannot be loaded. */
import { type BuilderSource, type ConfigSource, type NamedCall, sharedSteps, type StepSource } from './builders.ts';
import { namesTool } from './definition-rules.ts';
import type { PlacedDiagnostic } from './diagnostic.ts';
import type { Insights } from './insight.ts';
import { RULES, type RuleName } from './rules.ts';
import type { Place, Sources } from './sources.ts';
import { KNOWN_TOOLS } from './tool-names.ts';

export function sourceFindings(
  sources: Sources,
  builders: readonly BuilderSource[],
  insights: Insights,
): readonly PlacedDiagnostic[] {
  const found: PlacedDiagnostic[] = [];
  const add: Add = (rule, place, message, more = {}) =>
    void found.push({
      rule,
      severity: RULES[rule].severity === 'warning' ? 'warning' : 'error',
      message,
      remedy: RULES[rule].remedy,
      ...more,
      ...place,
    });
  for (const builder of builders) {
    twice(builder.steps, (name, call) =>
      add(
        'duplicate-step',
        sources.placeOf(call.nameNode),
        `Step "${name}" is declared twice; this one replaces the one before.`,
        { step: name },
      ),
    );
    twice(builder.subskills, (name, call) =>
      add('composite-duplicate-subskill', sources.placeOf(call.nameNode), `Sub-skill "${name}" is registered twice.`),
    );
    twice(builder.topics, (name, call) =>
      add('composite-duplicate-topic', sources.placeOf(call.nameNode), `Topic "${name}" is registered twice.`),
    );
    checkDensity(sources, builder, insights, add);
  }
  checkPrompts(sources, builders, insights, add);
  return found;
}

type Add = (
  rule: RuleName,
  place: Place,
  message: string,
  more?: { readonly step?: string; readonly remedy?: string },
) => void;

function twice(calls: readonly NamedCall[], tell: (name: string, call: NamedCall) => void): void {
  const seen = new Set<string>();
  for (const call of calls) {
    if (call.name === null) continue;
    if (seen.has(call.name)) tell(call.name, call);
    seen.add(call.name);
  }
}

function checkDensity(sources: Sources, { steps }: BuilderSource, insights: Insights, add: Add): void {
  const branching = steps.filter((step) => insights.promptOf(step)?.branchesOnHost === true);
  const [first, second] = branching;
  if (first === undefined || second === undefined) return;
  const names = branching.map(({ name }) => (name === null ? 'one without a fixed name' : `"${name}"`)).join(', ');
  add(
    'host-branching-density',
    sources.placeOf(second.nameNode),
    `${branching.length} steps look at host.toolsAvailable: ${names}.`,
    second.name === null ? {} : { step: second.name },
  );
}

/** Texts that several steps share are spoken of once. */
function checkPrompts(sources: Sources, builders: readonly BuilderSource[], insights: Insights, add: Add): void {
  const told = new Set<string>();
  const check = (config: ConfigSource, step: string | null): void => {
    const prompt = config.parts.get('prompt');
    if (prompt === undefined) return;
    const { mentions, questions } = insights.prompt(prompt);
    const once = (
      place: Place,
      rule: RuleName,
      tool: string,
      message: string,
      more: { readonly remedy?: string } = {},
    ): void => {
      const key = JSON.stringify([place, rule, tool]);
      if (!told.has(key)) add(rule, place, message, { ...(step === null ? {} : { step }), ...more });
      told.add(key);
    };
    for (const { tool, node, offset } of mentions)
      once(sources.placeOf(node, offset), 'no-host-tool-names', tool, namesTool(step, tool));
    for (const { tool, node } of questions) {
      // Tools of MCP servers are whatever somebody has installed.
      if (KNOWN_TOOLS.has(tool) || tool.startsWith('mcp__')) continue;
      const like = [...KNOWN_TOOLS].find((known) => plain(known) === plain(tool));
      const remedy = like === undefined ? {} : { remedy: `Did you mean "${like}"?` };
      once(sources.placeOf(node), 'unknown-tool-names', tool, `No known host has a tool "${tool}".`, remedy);
    }
  };
  for (const { steps } of builders)
    for (const { config, name } of steps satisfies readonly StepSource[]) check(config, name);
  for (const config of sharedSteps(sources)) check(config, null);
}

function plain(tool: string): string {
  return tool.replace(/[_-]/g, '').toLowerCase();
}
