import { describe, expect, it } from 'vitest';
import { renderSkillGraph } from '../../cli/render/skills/skill-graph.ts';
import { createStyle, PLAIN } from '../../cli/render/text/style.ts';
import { withSkill } from '../../test/rig/skills/linted.ts';
import { toMermaid } from './mermaid.ts';
import { readGraph } from './read-graph.ts';
import type { SkillGraph } from './skill-graph.ts';

const SKILL = `
import { skill, terminal } from 'voidbox/skill-kit';
const inner = skill({ name: 'inner', entry: 'end' }).step('end', { prompt: 'x', next: terminal }).build();
export default skill({ name: 'wide', version: '2.0.0', entry: 'begin' })
  .step('begin', { prompt: 'x', next: ({ attempts }) => (attempts > 3 ? 'pause' : 'self'), maxVisits: 5, onMaxVisits: 'lookup' })
  .step('pause', { wait: { durationMs: 90_000 }, next: 'lookup' })
  .step('lookup', { call: 'in', next: [{ to: 'topic:rules', when: () => true }, { to: 'approve' }] })
  .step('approve', { human: { deadlineMs: 3_600_000, onExpiry: 'begin', assignee: 'lead' }, prompt: 'q', next: 'fork' })
  .step('fork', { parallel: { branches: ['left', 'right'], join: 'join' } })
  .step('left', { prompt: 'l', next: 'join' })
  .step('right', { prompt: 'r', next: 'join' })
  .step('join', { action: () => 1, next: terminal })
  .subskill('in', inner)
  .topic('rules', { label: 'The "rules"', content: () => 'x' })
  .build();
`;

const graphOf = async (text: string): Promise<SkillGraph> =>
  withSkill(text, async (folder) => (await readGraph(folder, folder)).graph);
const begun = (steps: string): string =>
  `import { skill, terminal } from 'voidbox/skill-kit';\nexport default skill({ name: 's', entry: 'a' })\n${steps}\n.build();\n`;

describe('as text', () => {
  it('has every kind of step and way', async () => {
    expect(renderSkillGraph(await graphOf(SKILL), PLAIN)).toBe(`wide 2.0.0: 8 steps
▶ begin    prompt, at most 5 visits
  ├╌ may          → pause
  ├╌ may          ↺ begin
  └─ at the limit → lookup
○ pause    wait 90 s
  └─ → lookup
○ lookup   calls in
  ├─ if   → topic:rules
  └─ else → approve
○ approve  human (lead) within 1 h
  ├────────── → fork
  └─ too late ↺ begin
○ fork     parallel until join
  ├─ parallel → left
  └─ parallel → right
○ left     prompt
  └─ → join
○ right    prompt
  └─ → join
■ join     action, join of fork
topics: rules

  sub-skill in (inner) 0.0.0: 1 step
  ▶ end  prompt
`);
  });

  it('marks unknown transitions, and unreachable steps if all transitions are known', async () => {
    const open = await graphOf(
      begun(
        ".step('a', { prompt: 'a', next: ({ params }) => String(params['to']) })\n.step('b', { prompt: 'b', next: terminal })",
      ),
    );
    expect(renderSkillGraph(open, PLAIN)).toBe(
      's 0.0.0: 2 steps\n▶ a  prompt\n  └╌ may → any step, decided at run time\n■ b  prompt\n',
    );
    const closed = await graphOf(
      begun(".step('a', { prompt: 'a', next: terminal })\n.step('b', { prompt: 'b', next: 'a' })"),
    );
    expect(renderSkillGraph(closed, PLAIN)).toBe(
      's 0.0.0: 2 steps\n▶ a  prompt\n✗ b  prompt, never reached\n  └─ → a\n',
    );
  });

  it('keeps its columns beside wide characters', async () => {
    const graph = await graphOf(
      begun(".step('a', { prompt: 'a', next: '承認' })\n.step('承認', { prompt: 'b', next: terminal })"),
    );
    expect(renderSkillGraph(graph, PLAIN)).toBe('s 0.0.0: 2 steps\n▶ a     prompt\n  └─ → 承認\n■ 承認  prompt\n');
  });

  it('has colours only where they are asked for, and no control characters of the author', async () => {
    const graph = await graphOf(
      begun(
        ".step('a', { prompt: 'a', next: '\\u001b[31mred' })\n.step('\\u001b[31mred', { prompt: 'b', next: terminal })",
      ),
    );
    expect(renderSkillGraph(graph, PLAIN)).not.toContain('\u001b');
    const coloured = renderSkillGraph(graph, createStyle(true));
    expect(coloured).toContain('\u001b[1m');
    expect(coloured.split('red').length).toBe(3);
    expect(coloured).not.toContain('\u001b[31mred');
  });
});

describe('for Mermaid', () => {
  it('has a node for each step and topic, a subgraph for each sub-skill, and dashed ways for what may be', async () => {
    expect(toMermaid(await graphOf(SKILL))).toBe(`flowchart TD
  m_start(["start"])
  m_s0["begin<br/>prompt<br/>at most 5 visits"]
  m_s1("pause<br/>wait 90 s")
  m_s2[["lookup<br/>calls in"]]
  m_s3[/"approve<br/>human (lead) within 1 h"/]
  m_s4{{"fork<br/>parallel until join"}}
  m_s5["left<br/>prompt"]
  m_s6["right<br/>prompt"]
  m_s7["join<br/>action<br/>join of fork"]
  m_t0>"topic rules<br/>The #34;rules#34;"]
  m_end(["end"])
  subgraph m_g0["sub-skill in"]
    m_g0_start(["start"])
    m_g0_s0["end<br/>prompt"]
    m_g0_end(["end"])
    m_g0_start --> m_g0_s0
    m_g0_s0 --> m_g0_end
  end
  m_start --> m_s0
  m_s0 -.->|"may"| m_s1
  m_s0 -.->|"may"| m_s0
  m_s0 -->|"at the limit"| m_s2
  m_s1 --> m_s2
  m_s2 -->|"if"| m_t0
  m_s2 -->|"else"| m_s3
  m_s3 --> m_s4
  m_s3 -->|"too late"| m_s0
  m_s4 -->|"parallel"| m_s5
  m_s4 -->|"parallel"| m_s6
  m_s5 --> m_s7
  m_s6 --> m_s7
  m_s7 --> m_end
  m_s2 <-.->|"calls"| m_g0_s0
`);
  });

  it('no name of an author is read as Mermaid', async () => {
    const graph = await graphOf(
      begun(
        ".step('a', { prompt: 'a', next: '\"]; end <b>`x`|#\\n' })\n.step('\"]; end <b>`x`|#\\n', { prompt: 'b', next: terminal })",
      ),
    );
    expect(toMermaid(graph)).toContain('m_s1["#34;#93;; end #60;b#62;#96;x#96;#124;#35;#10;<br/>prompt"]\n');
  });
});

it('a reference has nothing to draw', async () => {
  const text =
    "import { reference } from 'voidbox/skill-kit';\nexport default reference({ name: 'r', description: 'R.' }).topic('t', { label: 'T', content: () => 't' }).build();\n";
  await expect(graphOf(text)).rejects.toMatchObject({
    code: 'skill/unusable',
    message: expect.stringContaining('no steps to draw') as string,
  });
});
