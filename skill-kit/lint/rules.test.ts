import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { linted, placeAndRule, type SkillFiles } from '../../test/rig/skills/linted.ts';
import { RULES, type RuleName } from './rules.ts';

const IMPORTS = "import { act, skill, terminal, z } from 'voidbox/skill-kit';\n";
/** The steps begin in line 3. */
const chain = (steps: string, config = "name: 'sample', entry: 'a'"): string =>
  `${IMPORTS}export default skill({ ${config} })\n${steps}\n  .build();\n`;
const END = "  .step('end', { prompt: 'Say goodbye.', next: terminal })";
const sub = (name: string): string =>
  `const ${name} = skill({ name: '${name}', entry: 'x' }).step('x', { prompt: 'x', next: terminal }).build();\n`;
/** A schema that says nothing of itself. */
const BARE =
  "const BARE = { '~standard': { version: 1, vendor: 'own', validate: (value: unknown) => ({ value }) } } as const;";

interface Case {
  readonly clean: SkillFiles;
  readonly dirty: SkillFiles;
  /** All diagnostics of `dirty`. */
  readonly said: readonly string[];
}

const CASES: Readonly<Record<RuleName, Case>> = {
  syntax: {
    clean: chain("  .step('a', { prompt: 'a', next: terminal })"),
    dirty: {
      'skill.ts': `import './broken.ts';\n${chain("  .step('a', { prompt: 'a', next: terminal })")}`,
      'broken.ts': 'export const\n  a = ;\n',
    },
    said: ['broken.ts:2:7 error[syntax]'],
  },
  definition: {
    clean: chain("  .step('a', { prompt: 'a', next: terminal })"),
    dirty: `${IMPORTS}throw new Error('no luck');\n${sub('one')}export default one;\n`,
    said: ['skill.ts:4:1 error[definition]'],
  },
  'cycle-guard': {
    clean: chain(
      "  .step('a', { prompt: 'a', next: 'b', maxVisits: 3 })\n  .step('b', { prompt: 'b', next: [{ to: 'a', when: () => true }, { to: 'end' }] })\n" +
        END,
    ),
    dirty: chain(
      "  .step('a', { prompt: 'a', next: 'b' })\n  .step('b', { prompt: 'b', next: [{ to: 'a', when: () => true }, { to: 'end' }] })\n" +
        END,
    ),
    said: ['skill.ts:3:9 warning[cycle-guard]'],
  },
  'unreachable-step': {
    clean: chain(`  .step('a', { prompt: 'a', next: 'end' })\n${END}`),
    dirty: chain(`  .step('a', { prompt: 'a', next: terminal })\n${END}`),
    said: ['skill.ts:4:9 warning[unreachable-step]'],
  },
  'unknown-target': {
    clean: chain(
      `  .step('a', { prompt: 'a', next: ({ attempts }) => (attempts > 1 ? 'end' : 'self'), maxVisits: 2 })\n${END}`,
    ),
    dirty: chain(`  .step('a', { prompt: 'a', next: ({ attempts }) => (attempts > 1 ? 'end' : 'gone') })\n${END}`),
    said: ['skill.ts:3:77 error[unknown-target]'],
  },
  'entry-step': {
    clean: chain("  .step('a', { prompt: 'a', next: terminal })"),
    dirty: chain("  .step('b', { prompt: 'b', next: terminal })"),
    said: ['skill.ts:2:16 error[entry-step]'],
  },
  'step-fields': {
    clean: chain("  .step('a', { prompt: 'a', human: { deadlineMs: 5, onExpiry: 'end' }, next: 'end' })\n" + END),
    dirty: chain("  .step('a', { prompt: 'a', human: { deadlineMs: 5 }, next: 'end' })\n" + END),
    said: ['skill.ts:3:9 error[step-fields]'],
  },
  'step-numbers': {
    clean: chain("  .step('a', { prompt: 'a', next: terminal, maxInvalid: 1 })"),
    dirty: chain("  .step('a', { prompt: 'a', next: terminal, maxInvalid: 0.5 })"),
    said: ['skill.ts:3:9 error[step-numbers]'],
  },
  'parallel-join': {
    clean: chain(
      "  .step('a', { parallel: { branches: ['b', 'c'], join: 'end' } })\n  .step('b', { prompt: 'b', next: 'end' })\n  .step('c', { prompt: 'c', next: 'end' })\n" +
        END,
    ),
    dirty: chain(
      "  .step('a', { parallel: { branches: ['b', 'c'], join: 'end' } })\n  .step('b', { prompt: 'b', next: 'end' })\n  .step('c', { prompt: 'c', next: terminal })\n" +
        END,
    ),
    said: ['skill.ts:3:9 error[parallel-join]'],
  },
  'env-names': {
    clean: chain("  .step('a', { prompt: 'a', next: terminal })", "name: 'sample', entry: 'a', env: ['GITHUB_TOKEN']"),
    dirty: chain(
      "  .step('a', { prompt: 'a', next: terminal })",
      "name: 'sample', entry: 'a', env: ['GITHUB TOKEN', 'NODE_OPTIONS']",
    ),
    said: ['skill.ts:2:16 error[env-names]', 'skill.ts:2:16 error[env-names]'],
  },
  'reserved-name': {
    clean: chain("  .step('a', { prompt: 'a', next: terminal })"),
    dirty: chain(
      "  .step('a', { prompt: 'a', next: 'topic:b' })\n  .step('topic:b', { prompt: 'b', next: terminal })\n  .topic('b', { label: 'B', content: () => 'b' })",
    ),
    said: ['skill.ts:4:9 error[reserved-name]'],
  },
  'unreadable-step': {
    clean: chain("  .step('a', { prompt: 'a', next: 'every' })\n  .step('every', { prompt: 'b', next: terminal })"),
    dirty: chain("  .step('a', { prompt: 'a', next: 'all' })\n  .step('all', { prompt: 'b', next: terminal })"),
    said: ['skill.ts:4:9 warning[unreadable-step]'],
  },
  'duplicate-step': {
    clean: chain(`  .step('a', { prompt: 'a', next: 'end' })\n${END}`),
    dirty: chain(`  .step('a', { prompt: 'a', next: terminal })\n  .step('a', { prompt: 'b', next: 'end' })\n${END}`),
    said: ['skill.ts:4:9 warning[duplicate-step]'],
  },
  'composite-step-name': {
    clean: chain("  .step('a', { prompt: 'a', next: 'b-c' })\n  .step('b-c', { prompt: 'b', next: terminal })"),
    dirty: chain("  .step('a', { prompt: 'a', next: 'b/c' })\n  .step('b/c', { prompt: 'b', next: terminal })"),
    said: ['skill.ts:4:9 error[composite-step-name]'],
  },
  'composite-duplicate-subskill': {
    clean: `${IMPORTS}${sub('one')}export default skill({ name: 's', entry: 'a' })\n  .step('a', { prompt: 'a', next: 'subskill:one' })\n  .subskill('one', one)\n  .subskill('two', one)\n  .build();\n`,
    dirty: `${IMPORTS}${sub('one')}export default skill({ name: 's', entry: 'a' })\n  .step('a', { prompt: 'a', next: 'subskill:one' })\n  .subskill('one', one)\n  .subskill('one', one)\n  .build();\n`,
    said: ['skill.ts:6:13 error[composite-duplicate-subskill]'],
  },
  'composite-duplicate-topic': {
    clean: chain(
      "  .step('a', { prompt: 'a', next: 'topic:t' })\n  .topic('t', { label: 'T', content: () => 't' })\n  .topic('u', { label: 'U', content: () => 'u' })",
    ),
    dirty: chain(
      "  .step('a', { prompt: 'a', next: 'topic:t' })\n  .topic('t', { label: 'T', content: () => 't' })\n  .topic('t', { label: 'U', content: () => 'u' })",
    ),
    said: ['skill.ts:5:10 error[composite-duplicate-topic]'],
  },
  'no-host-tool-names': {
    clean: chain(
      "  .step('a', { prompt: ({ host }) => (host.toolsAvailable.includes('WebSearch') ? 'Search with WebSearch.' : 'Read the changelog.'), next: terminal })",
    ),
    dirty: chain("  .step('a', { prompt: () => 'Search with WebSearch.', next: terminal })"),
    said: ['skill.ts:3:43 error[no-host-tool-names]'],
  },
  'unknown-tool-names': {
    clean: chain(
      "  .step('a', { prompt: ({ host }) => (host.toolsAvailable.includes('mcp__tracker__find') ? 'Look it up.' : 'Ask.'), next: terminal })",
    ),
    dirty: chain(
      "  .step('a', { prompt: ({ host }) => (host.toolsAvailable.includes('Websearch') ? 'Look it up.' : 'Ask.'), next: terminal })",
    ),
    said: ['skill.ts:3:68 warning[unknown-tool-names]'],
  },
  'host-branching-density': {
    clean: chain(
      `  .step('a', { prompt: ({ host }) => (host.toolsAvailable.includes('WebSearch') ? 'Look it up.' : 'Ask.'), next: 'end' })\n${END}`,
    ),
    dirty: chain(
      "  .step('a', { prompt: ({ host }) => (host.toolsAvailable.includes('WebSearch') ? 'Look it up.' : 'Ask.'), next: 'b' })\n  .step('b', { prompt: ({ host: { toolsAvailable } }) => (toolsAvailable.includes('Bash') ? 'Run it.' : 'Ask.'), next: terminal })",
    ),
    said: ['skill.ts:4:9 warning[host-branching-density]'],
  },
  'primitive-schema-mismatch': {
    clean: chain(
      "  .step('a', { prompt: act.askUser({ type: 'structured', question: 'Which?', options: [{ value: 'x', label: 'X' }, { value: 'y', label: 'Y' }] }), response: z.object({ pick: z.enum(['x', 'y']) }), next: terminal })",
    ),
    dirty: chain(
      "  .step('a', { prompt: act.askUser({ type: 'structured', question: 'Which?', options: [{ value: 'x', label: 'X' }, { value: 'z', label: 'Z' }] }), response: z.object({ pick: z.enum(['x', 'y']) }), next: terminal })",
    ),
    said: ['skill.ts:3:24 error[primitive-schema-mismatch]', 'skill.ts:3:24 warning[primitive-schema-mismatch]'],
  },
  'no-json-schema': {
    clean: chain(
      "  .step('a', { prompt: 'a', response: z.object({ at: z.date() }), next: terminal })",
      "name: 'sample', entry: 'a', params: z.object({})",
    ),
    dirty: chain(
      "  .step('a', { prompt: 'a', response: BARE, next: terminal })",
      "name: 'sample', entry: 'a', params: BARE",
    ).replace('\n', ` ${BARE}\n`),
    said: ['skill.ts:2:16 warning[no-json-schema]', 'skill.ts:3:9 warning[no-json-schema]'],
  },
  'orphan-references': {
    clean: {
      'skill.ts': chain("  .step('a', { prompt: ({ refs }) => refs.load('style.md'), next: terminal })"),
      'references/style.md': 'Be brief.',
    },
    dirty: {
      'skill.ts': chain("  // style.md\n  .step('a', { prompt: 'a', next: terminal })"),
      'references/style.md': 'Be brief.',
    },
    said: ['skill.ts:2:1 warning[orphan-references]'],
  },
};

describe.each(Object.entries(CASES))('%s', (_rule, { clean, dirty, said }) => {
  it('says nothing of a skill that is sound', async () => {
    expect((await linted(clean)).map(placeAndRule)).toEqual([]);
  });

  it('names the rule and place of each mistake', async () => {
    expect((await linted(dirty)).map(placeAndRule)).toEqual(said);
  });
});

it('a file below rules/ bears the name of the rule in it, and the table lists it', () => {
  const files = readdirSync(new URL('rules', import.meta.url)).map((file) => file.replace(/\.ts$/, ''));
  expect(files.toSorted()).toEqual(RULES.map(({ code }) => code).toSorted());
  const table = readFileSync(new URL('rules.ts', import.meta.url), 'utf8');
  for (const { code } of RULES) {
    const name = code.replace(/-(.)/g, (_match, letter: string) => letter.toUpperCase());
    expect(table).toContain(`import { ${name} } from './rules/${code}.ts';`);
  }
});
