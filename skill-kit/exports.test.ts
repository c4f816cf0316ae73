/** Every name that skills written for @contentful/skill-kit import. A type that is missing does not compile. */
import { expect, expectTypeOf, it } from 'vitest';
import * as commandLine from './cli.ts';
import * as root from './index.bundled.ts';
import type {
  ActionConfig,
  ActionDefinition,
  ActSegment,
  AskOpenConfig,
  AskStructuredConfig,
  AskUserConfig,
  AskUserOption,
  Buildable,
  ChecklistConfig,
  CliResult,
  ConfirmConfig,
  DeepPartial,
  DoneResult,
  Fragment,
  Handshake,
  InferActionResult,
  LintDiagnostic,
  ModelAdapter,
  ModuleDefinition,
  NextBranch,
  NextTarget,
  ObserverMap,
  PackageConfig,
  PlanConfig,
  PrimitiveConfig,
  PromptContext,
  PromptFn,
  PromptPiece,
  PromptResult,
  PromptReturn,
  PromptSegment,
  RedirectResult,
  ReferenceBuilderConfig,
  ReferenceDefinition,
  ReferenceLoader,
  SessionHeader,
  SessionLine,
  SessionOutputLine,
  SessionOutputMode,
  SessionPointer,
  SessionResult,
  SkillBuilderConfig,
  SkillDefinition,
  SkillRunResult,
  StepConfig,
  StepDefinition,
  StepResult,
  StoreAccessor,
  SubagentConfig,
  SubskillRegistration,
  SurveyConfig,
  SurveyQuestion,
  SystemSegment,
  Terminal,
  TopicConfig,
  TransitionFn,
  ValidationErrorResult,
  VersionStrategy,
  ViewSegment,
} from './index.bundled.ts';
import * as testing from './test.ts';
import type {
  CompositeRunResult,
  ModelAdapter as TestModelAdapter,
  RunCompositeOptions,
  RunSkillOptions,
  SkillRunResult as TestRunResult,
} from './test.ts';

it.each([
  [
    'voidbox/skill-kit',
    root,
    `ModuleBuilder ReferenceBuilder SkillBuilder act action checkSkill fragment isDone isError isPrompt isRedirect module prompt reference
     render resolveTemplate skill step system terminal type view z`,
  ],
  ['voidbox/skill-kit/test', testing, 'mockModel runComposite runSkill'],
  ['voidbox/skill-kit/cli', commandLine, 'compositeMain main mcpCompositeMain mcpMain mcpReferenceMain referenceMain'],
])('%s exports what skills import from there', (_specifier, door, names) => {
  expect(Object.keys(door)).toEqual(expect.arrayContaining(names.split(/\s+/)));
});

it('types of what skills are made of, run with and read', () => {
  expectTypeOf<Buildable>().toEqualTypeOf<SkillDefinition | ReferenceDefinition>();
  expectTypeOf<SkillDefinition['steps'][string]['config']>().toEqualTypeOf<StepDefinition['config']>();
  expectTypeOf<PromptSegment>().toEqualTypeOf<SystemSegment | ActSegment | ViewSegment>();
  expectTypeOf<PromptReturn>().toEqualTypeOf<PromptPiece | PromptPiece[]>();
  expectTypeOf<AskUserConfig>().toEqualTypeOf<AskStructuredConfig | AskOpenConfig>();
  expectTypeOf<PrimitiveConfig>().toEqualTypeOf<
    AskUserConfig | ConfirmConfig | PlanConfig | ChecklistConfig | SubagentConfig | SurveyConfig
  >();
  expectTypeOf<SurveyConfig['questions'][number]>().toEqualTypeOf<SurveyQuestion>();
  expectTypeOf<SurveyQuestion['options'][number]>().toEqualTypeOf<AskUserOption>();
  expectTypeOf<PromptResult | DoneResult | ValidationErrorResult | RedirectResult>().toExtend<SessionResult>();
  expectTypeOf<CliResult>().toEqualTypeOf<SessionResult>();
  expectTypeOf<SessionHeader | SessionOutputLine>().toExtend<SessionLine>();
  expectTypeOf<SessionHeader['outputMode']>().toEqualTypeOf<SessionOutputMode>();
  expectTypeOf<SessionPointer>().toEqualTypeOf<{
    readonly sessionId: string;
    readonly file: string;
    readonly line: number;
  }>();
  expectTypeOf<SkillRunResult['history'][number]>().toEqualTypeOf<StepResult>();
  expectTypeOf<TestRunResult>().toEqualTypeOf<SkillRunResult>();
  expectTypeOf<TestModelAdapter>().toEqualTypeOf<ModelAdapter>();
  expectTypeOf<RunCompositeOptions>().toExtend<RunSkillOptions>();
  expectTypeOf<CompositeRunResult['path']>().toEqualTypeOf<SkillRunResult['path']>();
  expectTypeOf<NonNullable<SkillDefinition['topics']>[string]>().toEqualTypeOf<TopicConfig>();
  expectTypeOf<NonNullable<SkillDefinition['subskills']>[string]>().toEqualTypeOf<SubskillRegistration>();
  expectTypeOf<LintDiagnostic['severity']>().toEqualTypeOf<'error' | 'warning'>();
  expectTypeOf(root.checkSkill).returns.toExtend<readonly LintDiagnostic[]>();
  expectTypeOf<DeepPartial<{ a: { b: string } }>>().toEqualTypeOf<{ a?: { b?: string } }>();
});

it('types of what authors write down on its own', () => {
  const say: PromptFn = ({ act, system, host, refs, attempts }: PromptContext) => [
    system(host.host),
    act.confirm({ message: refs.load(String(attempts)) }),
  ];
  const next: TransitionFn = ({ attempts }) => (attempts > 2 ? 'end' : 'self');
  const branches: readonly NextBranch[] = [{ to: 'end' satisfies NextTarget }];
  const steps: Record<string, StepConfig> = {
    ask: { prompt: say, next },
    choose: { next: branches },
    end: { next: root.terminal satisfies Terminal },
  };
  const observers: ObserverMap = {
    onStepStart: ({ step }) => void step,
    onSkillComplete: async ({ path, durationMs }) => void [path, durationMs],
  };
  const version: VersionStrategy = { resolveVersion: true };
  const shipped: PackageConfig = { name: '@org/s', private: true };
  const config: SkillBuilderConfig = { name: 's', entry: 'ask', observers, package: shipped, ...version };
  const guide: ReferenceBuilderConfig = { name: 'r', description: 'd', ...version };
  const tone: Fragment = root.fragment('tone', 'Kind.');
  const loader: ReferenceLoader = { load: (file) => file, asset: (path) => path };
  const host: Handshake = { host: 'generic', toolsAvailable: [], isSubagent: false };
  const part: ModuleDefinition = root
    .module({ name: 'm', entry: 'a' })
    .step('a', { prompt: tone.content, next: '__parent__' })
    .build();
  const read = (store: StoreAccessor): boolean => store.steps.ran('a');
  const call: ActionConfig = { name: 'x', input: root.z.any(), output: root.z.any(), run: async ({ input }) => input };
  const made: ActionDefinition = root.action(call);
  expectTypeOf<InferActionResult<(n: number) => Promise<string>>>().toEqualTypeOf<string>();
  const builder = root.skill(config);
  for (const [name, step] of Object.entries(steps)) builder.step(name, step as never);
  const built = builder.step('ask', { prompt: ({ store }) => String(read(store as never)), next: 'end' }).build();
  expect([
    built.entry,
    built.resolveVersion,
    part.entry,
    made.kind,
    root
      .reference(guide)
      .topic('t', { label: 'T', content: () => loader.load('t') })
      .build().kind,
  ]).toEqual(['ask', true, 'a', 'action', 'reference']);
  expect(host.isSubagent).toBe(false);
});
