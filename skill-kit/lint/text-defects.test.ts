/** Tests mistakes of a lint that reads text instead of the syntax tree, one test for each. */
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { linted, placeAndRule, type SkillFiles, withSkill } from '../../test/rig/skills/linted.ts';
import { lintSkill } from './lint-skill.ts';

const IMPORTS =
  "import { act, fragment, module, prompt, skill, step, system, terminal, type, view, z } from 'voidbox/skill-kit';\n";
const END = "  .step('end', { prompt: 'Say goodbye.', next: terminal })";
/** The steps begin in line 3, after one line of `before`. */
const chain = (steps: string, before = ''): string =>
  `${IMPORTS}${before}\nexport default skill({ name: 'sample', entry: 'a' })\n${steps}\n  .build();\n`;
const asking = (prompt: string, before = ''): string =>
  chain(`  .step('a', {\n    prompt: ${prompt},\n    next: terminal,\n  })`, before);

async function said(files: SkillFiles): Promise<readonly string[]> {
  return (await linted(files)).map((one) => `${placeAndRule(one)} ${one.message}`);
}
async function rules(files: SkillFiles): Promise<readonly string[]> {
  return (await linted(files)).map(({ rule }) => rule);
}

describe('no-host-tool-names', () => {
  it.each([
    [
      'words that are also tools',
      `'Which question is open? Plan the task, note each todo, skip the agent. Read, Edit and Write with Bash; do a web-search.'`,
    ],
    [
      'a primitive that is called in a function',
      "({ act }) => act.plan({ summary: 'Refactor', steps: ['read', 'edit'] })",
    ],
    ['a comment', "() => {\n      // AskUserQuestion would do\n      return 'Ask.'; /* TodoWrite */\n    }"],
    ['a key of the store', "({ store }) => `Done: ${String(store.steps['TodoWrite'])}`"],
    ['a comparison', "({ params }) => (params['mode'] === 'apply_patch' ? 'Patch it.' : 'Write it.')"],
    [
      'a value that programs read',
      "act.askUser({ type: 'structured', question: 'How?', options: [{ value: 'apply_patch', label: 'As a patch' }, { value: 'new', label: 'Anew' }] })",
    ],
    [
      'a part of a path or of a longer name',
      `'See docs/apply_patch.md and my_apply_patch, then call read_file() of the library.'`,
    ],
    ['the name of a reference', "({ refs }) => refs.load('TodoWrite.md')"],
    [
      'a local function of that name',
      "() => {\n      const spawn_agent = (text: string): string => text;\n      return spawn_agent('Go on.');\n    }",
    ],
    ['a type', "() => {\n      const mode: 'TodoWrite' | 'none' = (0 as never);\n      return `${mode}`;\n    }"],
  ])('%s is no tool that is named', async (_what, prompt) => {
    expect(await rules(asking(prompt))).toEqual([]);
  });

  it.each([
    ['in an array of pieces', "['Look around.', system`Use TodoWrite.`]"],
    ['in a primitive', "act.confirm({ message: 'May apply_patch change it?' })"],
    ['in a template', 'prompt`Keep notes with TodoWrite.`'],
    ['in a fragment elsewhere', 'prompt`${NOTES}`', "const NOTES = fragment('notes', 'Keep notes with TodoWrite.');"],
    ['in a constant', '() => NOTES', "const NOTES = 'Keep notes with TodoWrite.';"],
    ['in a helper', '() => notes()', "function notes(): string { return 'Keep notes with TodoWrite.'; }"],
    [
      'in a table',
      '({ attempts }) => TEXTS[attempts > 0 ? "b" : "a"]',
      "const TEXTS = { a: 'Begin.', b: 'Keep notes with TodoWrite.' };",
    ],
    ['in a method', "undefined,\n    ...{ prompt() { return 'Use apply_patch.'; } }"],
    ['as a tool, though it is a word', "'Present it with the `plan` tool.'"],
    ['as a tool, in speech', "'Use the Bash tool to look around.'"],
    ['with escapes before it', "'Don\\'t\\nstop: TodoWrite.'"],
  ])('a tool is found %s', async (_where, prompt, before = '') => {
    expect(await rules(asking(prompt, before))).toEqual(['no-host-tool-names']);
  });

  it('points at the name itself', async () => {
    expect(await said(asking("'Keep notes.\\nUse TodoWrite.'"))).toEqual([
      'skill.ts:5:31 error[no-host-tool-names] Step "a" names the tool "TodoWrite" in its prompt.',
    ]);
  });

  it.each([
    [
      'a hyphenated name',
      "({ host }) => (host.toolsAvailable.includes('ask-user') ? 'Use the `ask-user` tool.' : 'Ask.')",
    ],
    [
      'an early return',
      "({ host }) => {\n      if (!host.toolsAvailable.includes('WebSearch')) return 'Read the changelog.';\n      return 'Use WebSearch.';\n    }",
    ],
    [
      'a constant',
      "({ host }) => {\n      const can = host.toolsAvailable.includes('WebSearch');\n      return can ? 'Use WebSearch.' : 'Read.';\n    }",
    ],
    [
      'other names',
      "({ host: { toolsAvailable: tools } }) => ['Look it up.', ...(tools.includes('WebSearch') ? ['Use WebSearch.'] : [])]",
    ],
    [
      'the whole context',
      "(context) => (context.host.toolsAvailable.includes('WebSearch') && 'Use WebSearch.') || 'Read.'",
    ],
    ['a set', "({ host }) => (new Set(host.toolsAvailable).has('WebSearch') ? 'Use WebSearch.' : 'Read.')"],
    [
      'a helper that asks',
      "({ host }) => (can(host, 'WebSearch') ? 'Use WebSearch.' : 'Read.')",
      'const can = (host: { toolsAvailable: string[] }, tool: string): boolean => host.toolsAvailable.some((one) => one === tool);',
    ],
    [
      'a helper that is handed the text',
      "({ host }) => `Look around. ${when(host, 'WebSearch', 'Use WebSearch.')}`",
      "const when = (host: { toolsAvailable: string[] }, tool: string, text: string): string => (host.toolsAvailable.includes(tool) ? text : '');",
    ],
    [
      'a list of names',
      "({ host }) => (SEARCHES.some((tool) => host.toolsAvailable.includes(tool)) ? 'Use WebSearch or WebFetch.' : 'Read.')",
      "const SEARCHES = ['WebSearch', 'WebFetch'];",
    ],
    [
      'a text elsewhere',
      "({ host }) => (host.toolsAvailable.includes('WebSearch') ? SEARCH : 'Read.')",
      "const SEARCH = 'Use WebSearch.';",
    ],
  ])('%s guards', async (_what, prompt, before = '') => {
    expect(await rules(asking(prompt, before))).toEqual([]);
  });

  it.each([
    ['in the other branch', "({ host }) => (host.toolsAvailable.includes('WebSearch') ? 'Search.' : 'Use WebSearch.')"],
    [
      'behind the test',
      "({ host }) => {\n      let text = '';\n      if (host.toolsAvailable.includes('WebSearch')) text = 'Search.';\n      return `${text} Use WebSearch.`;\n    }",
    ],
    [
      'in a text for another tool',
      "({ host }) => when(host, 'WebFetch', 'Use WebSearch.')",
      "const when = (host: { toolsAvailable: string[] }, tool: string, text: string): string => (host.toolsAvailable.includes(tool) ? text : '');",
    ],
    [
      'behind a test for another tool',
      "({ host }) => (host.toolsAvailable.includes('WebFetch') ? 'Use WebSearch.' : 'Read.')",
    ],
    [
      'behind a test of something that is only called so',
      "() => {\n      const host = { toolsAvailable: ['WebSearch'] };\n      return host.toolsAvailable.includes('WebSearch') ? 'Use WebSearch.' : 'Read.';\n    }",
    ],
  ])('a tool is found %s', async (_where, prompt, before = '') => {
    expect(await rules(asking(prompt, before))).toEqual(['no-host-tool-names']);
  });

  it('a text that several steps share is spoken of once', async () => {
    const skill = chain(
      "  .step('a', { prompt: NOTES, next: 'b' })\n  .step('b', { prompt: NOTES, next: terminal })",
      "const NOTES = 'Keep notes with TodoWrite.';",
    );
    expect(await said(skill)).toEqual([
      'skill.ts:2:32 error[no-host-tool-names] Step "a" names the tool "TodoWrite" in its prompt.',
    ]);
  });
});

describe('names', () => {
  const DIRTY = "{ prompt: 'Use TodoWrite.', next: t }";

  it.each([
    [
      'renamed',
      `import { skill as make, terminal as t } from 'voidbox/skill-kit';\nexport default make({ name: 's', entry: 'a' }).step('a', ${DIRTY}).build();\n`,
    ],
    [
      'through a namespace',
      `import * as kit from 'voidbox/skill-kit';\nconst t = kit.terminal;\nexport default kit.skill({ name: 's', entry: 'a' }).step('a', ${DIRTY}).build();\n`,
    ],
    [
      'exported again',
      {
        'kit.ts': "export * from 'voidbox/skill-kit';\nexport { terminal as t } from 'voidbox/skill-kit';\n",
        'skill.ts': `import { skill, t } from './kit.js';\nexport default skill({ name: 's', entry: 'a' }).step('a', ${DIRTY}).build();\n`,
      },
    ],
    [
      'through a variable',
      `import { skill, terminal as t } from 'voidbox/skill-kit';\nconst built = skill({ name: 's', entry: 'a' });\nbuilt.step('a', ${DIRTY});\nexport default built.build();\n`,
    ],
    [
      'through a shared step',
      `import { skill, step, terminal as t } from 'voidbox/skill-kit';\nconst shared = step(${DIRTY});\nexport default skill({ name: 's', entry: 'a' }).extend('a', shared, { maxVisits: 2 }).build();\n`,
    ],
    [
      'through a module',
      {
        'parts.ts': `import { module, terminal as t } from 'voidbox/skill-kit';\nexport const parts = module({ name: 'm', entry: 'a' }).step('a', ${DIRTY}).build();\n`,
        'skill.ts':
          "import { skill } from 'voidbox/skill-kit';\nimport { parts } from './parts.ts';\nexport default skill({ name: 's', entry: 'a' }).register(parts, { next: 'a' }).build();\n",
      },
    ],
  ] satisfies readonly (readonly [string, SkillFiles])[])('lint follows names %s', async (_how, files) => {
    expect(await rules(files)).toEqual(['no-host-tool-names']);
  });

  it("an overridden prompt is not the step's", async () => {
    const files = `${IMPORTS}const shared = { prompt: 'Use TodoWrite.', next: terminal } as const;\nexport default skill({ name: 's', entry: 'a' })\n  .step('a', { ...shared, prompt: 'Go on.' })\n  .build();\n`;
    expect(await rules(files)).toEqual([]);
  });

  it('a function that is only called like an export is not one', async () => {
    const shadow = `function other(): unknown {\n  const skill = (_: object) => ({ step: (_name: string, _config: object) => 0 });\n  return skill({ name: 'x' }).step('x', { prompt: 'Use TodoWrite.' });\n}\nexport const made = other();`;
    expect(await rules(asking("'Go on.'", shadow))).toEqual([]);
  });

  it('findings about steps whose names are made at run time point to the start of the skill', async () => {
    const skill = `${IMPORTS}const built = skill({ name: 's', entry: 'step-0' });\nfor (const number of [0, 1, 2]) built.step(\`step-\${number}\`, { prompt: 'Go on.', next: terminal });\nexport default built.build();\n`;
    expect(await said(skill)).toEqual([
      'skill.ts:2:15 warning[unreachable-step] No transition leads from "step-0" to step "step-1".',
      'skill.ts:2:15 warning[unreachable-step] No transition leads from "step-0" to step "step-2".',
    ]);
  });
});

describe('cycle-guard', () => {
  it('knows all members of a circle, also where two ways lead round', async () => {
    const steps =
      "  .step('a', { prompt: 'a', next: [{ to: 'b', when: () => true }, { to: 'c' }] })\n  .step('b', { prompt: 'b', next: [{ to: 'a', when: () => true }, { to: 'end' }] })\n  .step('c', { prompt: 'c', next: 'b' })\n";
    expect((await linted(chain(steps + END))).map(({ message }) => message)).toEqual([
      'Steps "a", "b", "c" lead to each other without maxVisits; the implicit limit of 10 visits applies.',
    ]);
  });

  it('takes a function for what it returns, not for a way to every step', async () => {
    const steps =
      "  .step('a', { prompt: 'a', next: ({ attempts }) => { if (attempts > 1) return 'b'; return 'end' as const; } })\n  .step('b', { prompt: 'b', next: 'end' })\n";
    expect(await rules(chain(steps + END))).toEqual([]);
  });

  it.each([
    ['its own name', "() => 'a'"],
    ['self', "({ attempts }) => (attempts > 1 ? 'end' : 'self')"],
    ['a table', "({ attempts }) => ({ again: 'a', done: 'end' } as const)[attempts > 1 ? 'done' : 'again']"],
    ['a helper', '() => back()', "const back = () => 'a' as const;"],
  ])('a function that returns %s leads to itself', async (_what, next, before = '') => {
    expect(
      await rules(
        chain(`  .step('a', { prompt: 'a', next: ${next} })\n  .step('end', { prompt: 'b', next: terminal })`, before),
      ),
    ).toContain('cycle-guard');
  });

  it('lint reports nothing about a function whose targets are made at run time', async () => {
    expect(
      await rules(
        chain(
          `  .step('a', { prompt: 'a', next: ({ params }) => String(params['to']) })\n  .step('b', { prompt: 'b', next: 'end' })\n${END}`,
        ),
      ),
    ).toEqual([]);
  });

  it('one limit on the way round is enough', async () => {
    expect(
      await rules(
        chain(
          "  .step('a', { prompt: 'a', next: 'b' })\n  .step('b', { prompt: 'b', next: 'a', maxVisits: 2, onMaxVisits: 'end' })\n" +
            END,
        ),
      ),
    ).toEqual([]);
  });
});

describe('primitive-schema-mismatch', () => {
  const ask = (...values: string[]): string =>
    `act.askUser({ type: 'structured', question: 'Which?', options: [${values.map((value) => `{ value: '${value}', label: '${value}' }`).join(', ')}] })`;
  const answered = (prompt: string, response: string): string =>
    chain(`  .step('a', { prompt: ${prompt}, response: ${response}, next: terminal })`);

  it.each([
    [
      'another property with values of its own',
      ask('x', 'y'),
      "z.object({ pick: z.enum(['x', 'y']), mood: z.enum(['good', 'bad']) })",
    ],
    ['literals', ask('x', 'y'), "z.object({ pick: z.union([z.literal('x'), z.literal('y')]) })"],
    ['several choices', ask('x', 'y'), "z.object({ picks: z.array(z.enum(['x', 'y'])) })"],
    ['free text', ask('x', 'y'), 'z.object({ pick: z.string() })'],
    ['free text beside a choice', ask('x', 'y'), "z.object({ pick: z.string(), mood: z.enum(['good', 'bad']) })"],
    ['two questions', `[${ask('x', 'y')}, ${ask('z', 'w')}]`, "z.object({ pick: z.enum(['x', 'y', 'z', 'w']) })"],
    [
      'options that are made at run time',
      "({ store }) => act.askUser({ type: 'structured', question: 'Which?', options: store.steps.history.map(({ step: value }) => ({ value, label: value })) })",
      "z.object({ pick: z.enum(['x', 'y']) })",
    ],
  ])('%s: nothing to say', async (_what, prompt, response) => {
    expect(await rules(answered(prompt, response))).toEqual([]);
  });

  it.each([
    [
      'in a function',
      `({ act: ask }) => ask.askUser({ type: 'structured', question: 'Which?', options: [{ value: 'x', label: 'X' }, { value: 'q', label: 'Q' }] })`,
      "z.object({ pick: z.enum(['x']) })",
    ],
    ['against a single literal', ask('x', 'q'), "z.object({ pick: z.literal('x') })"],
    [
      'with a constant',
      "() => act.askUser({ type: 'structured', question: 'Which?', options: OPTIONS })",
      "z.object({ pick: z.enum(['x']) })",
    ],
    ['with an ArkType schema', ask('x', 'q'), 'type({ pick: "\'x\'" })'],
  ])('an option that is refused is found %s', async (_where, prompt, response) => {
    const skill = answered(prompt, response).replace(
      '\n\n',
      "\nconst OPTIONS = [{ value: 'x', label: 'X' }, { value: 'q', label: 'Q' }];\n",
    );
    expect((await linted(skill)).map(({ severity, message }) => `${severity} ${message}`)).toEqual([
      'error Step "a": option "q" of askUser is refused by response.pick, which takes "x".',
    ]);
  });
});

describe('orphan-references', () => {
  const topic =
    "  .step('a', { prompt: 'a', next: 'topic:t' })\n  .topic('t', { label: 'T', content: ({ refs }) => refs.load('style.md') })";

  it.each([
    ['loaded by a topic', chain(topic)],
    ['named in a text', asking("'Read references/style.md first.'")],
    ['loaded by a pattern', asking('({ refs, params }) => refs.load(`${String(params["what"])}.md`)')],
    ['loaded by a name that is made at run time', asking('({ refs, params }) => refs.load(String(params["file"]))')],
  ])('a file that is %s is used', async (_how, skill) => {
    expect(await rules({ 'skill.ts': skill, 'references/style.md': 'Be brief.' })).toEqual([]);
  });

  it('a file that a used one names is used', async () => {
    expect(
      await rules({
        'skill.ts': chain(topic),
        'references/style.md': 'See [more](more.md).',
        'references/more.md': 'More.',
      }),
    ).toEqual([]);
  });

  it('the end of a longer name is another file', async () => {
    expect(
      (
        await linted({
          'skill.ts': asking("({ refs }) => refs.load('lifestyle.md')"),
          'references/lifestyle.md': '',
          'references/style.md': '',
        })
      ).map(({ message }) => message),
    ).toEqual(['Nothing mentions references/style.md.']);
  });
});

it('sub-skills are looked at where they are written, those of other files too', async () => {
  const files = {
    'inner.ts': `${IMPORTS}export const inner = skill({ name: 'inner', entry: 'x' })\n  .step('x', { prompt: 'x', next: ({ attempts }) => (attempts > 1 ? 'y' : 'x') })\n  .step('y', { prompt: 'Use TodoWrite.', next: terminal })\n  .build();\n`,
    'skill.ts': `import { inner } from './inner.ts';\n${chain("  .step('a', { prompt: 'a', next: 'subskill:in' })\n  .subskill('in', inner)")}`,
  };
  expect(await said(files)).toEqual([
    'inner.ts:3:9 warning[cycle-guard] [subskill:in] Step "x" leads to itself without maxVisits; the implicit limit of 10 visits applies.',
    'inner.ts:4:29 error[no-host-tool-names] Step "y" names the tool "TodoWrite" in its prompt.',
  ]);
});

it('references are looked at too', async () => {
  const files = {
    'skill.ts':
      "import { reference } from 'voidbox/skill-kit';\nexport default reference({ name: 'r', description: 'R.' })\n  .topic('a', { label: 'A', content: ({ refs }) => refs.load('a.md') })\n  .topic('a', { label: 'B', content: () => 'b' })\n  .build();\n",
    'references/a.md': 'A.',
    'references/b.md': 'B.',
  };
  expect(await said(files)).toEqual([
    'skill.ts:2:1 warning[orphan-references] Nothing mentions references/b.md.',
    'skill.ts:4:10 error[composite-duplicate-topic] Topic "a" is registered twice.',
  ]);
});

it('lint reports all findings at once, in the order of the places', async () => {
  const skill = chain(
    "  .step('a', { prompt: 'Use TodoWrite and apply_patch.', next: 'gone' })\n  .step('b/c', { prompt: 'b', next: 'lost', maxVisits: 0 })",
  );
  expect((await linted(skill)).map(({ line, column, rule }) => `${line}:${column} ${rule}`)).toEqual([
    '4:9 unknown-target',
    '4:29 no-host-tool-names',
    '4:43 no-host-tool-names',
    '5:9 composite-step-name',
    '5:9 step-numbers',
    '5:9 unknown-target',
  ]);
});

describe('what has no end', () => {
  it('files that import each other, functions and constants that lead to each other', async () => {
    const files = {
      'other.ts':
        "import './skill.ts';\nexport * from './other.ts';\nexport const text = (n: number): string => (n > 0 ? text(n - 1) : 'Use TodoWrite.');\n",
      'skill.ts': `import { text } from './other.ts';\n${chain(
        "  .step('a', { prompt: ({ attempts }) => text(attempts), next: ({ attempts }) => ping(attempts) })\n" + END,
        "const ping = (n: number): 'end' => (n > 0 ? pong(n - 1) : 'end');\nconst pong = (n: number): 'end' => ping(n);",
      )}`,
    };
    expect(await rules(files)).toEqual(['no-host-tool-names']);
  });

  it('a chain of a thousand steps', async () => {
    const steps = Array.from(
      { length: 999 },
      (_, index) => `  .step('s${index}', { prompt: 'Go on.', next: () => 's${index + 1}' })`,
    );
    const skill = `${IMPORTS}export default skill({ name: 's', entry: 's0' })\n${steps.join('\n')}\n  .step('s999', { prompt: 'Use TodoWrite.', next: 'gone' }).build();\n`;
    expect((await linted(skill)).map(({ rule, line }) => `${line} ${rule}`)).toEqual([
      '1002 unknown-target',
      '1002 no-host-tool-names',
    ]);
  });
});

it('the diagnostic of a missing import points to the import', async () => {
  const skill = chain(
    "  .step('a', { prompt: 'a', next: terminal })",
    "import { a } from 'no-such-package';\nimport { b } from '@no/such';\nvoid [a, b];",
  );
  expect(await said(skill)).toEqual([
    "skill.ts:2:19 error[definition] Could not resolve 'no-such-package' in skill.ts",
    "skill.ts:3:19 error[definition] Could not resolve '@no/such' in skill.ts",
  ]);
  expect(await said(chain("  .step('a', { prompt: 'a', next: terminal })", "import './gone.ts';"))).toEqual([
    "skill.ts:2:8 error[definition] Could not resolve './gone.ts' in skill.ts",
  ]);
});

describe('files that are no files of the kind', () => {
  it('references that are no folder hold nothing', async () => {
    expect(await rules({ 'skill.ts': asking("'Go on.'"), references: 'x' })).toEqual([]);
  });

  it('lint reports a source that cannot be read', async () => {
    const files = { 'skill.ts': `import './part.ts';\n${asking("'Go on.'")}` };
    const found = await withSkill(files, async (folder) => {
      // Not even root may read it from its beginning.
      symlinkSync('/proc/self/mem', join(folder, 'part.ts'));
      return await lintSkill(folder);
    });
    expect(found).toMatchObject([
      { rule: 'definition', message: expect.stringMatching(/^Could not load .*mem/) as string },
    ]);
  });
});
