/** Compiles a file to a plan that runs, and reports every mistake. */
import { NO_NOTIFY } from '../../domain/notification/notify.ts';
import { SOURCE_BYTES, type SourceRecord } from '../../client/runs/client-record.ts';
import { type MockRequest, withMocks } from '../../domain/plan-rules/mocks.ts';
import { listMockAgentStages, withMockAgents } from '../../domain/plan-rules/mock-agents.ts';
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import { type AppliedSettings, createUnapplied } from '../../domain/language/compile/apply-settings.ts';
import type { HostSettings } from '../../domain/language/compile/stage/host-settings.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { describeUnsupported, findUnsupportedParts } from '../../domain/plan-rules/unsupported.ts';
import type { KnownImage } from '../../setup/images/images.ts';
import { listFiles } from '../../sdk/list-files.ts';
import { readStepMachine } from '../../sdk/read-skill.ts';
import { createReadSpec } from '../../sdk/read-spec.ts';
import { AppError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { type LoadedSpec, loadSpec, type SpecValues, STDIN_NAME } from './load-spec.ts';
import { type ImagePlaces, withImages } from './plan-images.ts';
import { limitReader, listSpecRoots } from './spec-roots.ts';
import { refuseMissingAgentSkills, withAgentSkillFiles } from './skill-files.ts';

export interface CompiledRun {
  /** The plan that runs. */
  readonly plan: Plan;
  /** The plan of the author. A run is started with this plan and `mock`. */
  readonly written: Plan;
  readonly mock: MockRequest | null;
  /** Whether the mock agent plays the agents of the plan; null: as in the run that it comes from. */
  readonly mockAgents: boolean | null;
  /** The images whose disk hashes the VMs of the plan contain. */
  readonly images: readonly KnownImage[];
  readonly baseDir: string;
  readonly places: LoadedSpec['mountPlaces'];
  readonly source: SourceRecord;
  /** Empty for a plan of a client. */
  readonly triggers: LoadedSpec['triggers'];
  /** Without receivers for a plan of a client. */
  readonly notify: LoadedSpec['notify'];
  /** Errors only for a deployment. */
  readonly deployProblems: LoadedSpec['deployProblems'];
}

/** The options that a fork takes of the earlier run. */
export interface RepeatedOptions {
  readonly mode: 'mock' | null;
  readonly mock: (plan: Plan) => MockRequest | null;
  /** `kept`: as in the run that it comes from, if the plan has an agent. */
  readonly mockAgents: boolean | 'kept';
}

interface CompileOptions extends SpecValues, RepeatedOptions {
  readonly images: Pick<ImagePlaces, 'given' | 'allow'>;
  /**
   * Gets the plan before anything that it names is read. It may refuse the plan, or name other paths. Absent: the plan
   * stays as it is.
   */
  readonly settlePlan?: (plan: Plan) => Plan;
  readonly onNotice: (notice: CompileNotice) => Promise<void>;
}

/** News of a compilation, in order. Some come before a refusal. */
export type CompileNotice =
  | {
      readonly kind: 'diagnostics';
      readonly diagnostics: readonly Diagnostic[];
      /** Texts by the names that diagnostics use. */
      readonly sources: LoadedSpec['sources'];
      /** There is no plan: the compilation fails with `spec/invalid`. */
      readonly isRefused: boolean;
    }
  | { readonly kind: 'settings'; readonly settings: HostSettings; readonly applied: AppliedSettings }
  /** The mock agent was requested, and no stage has an agent. */
  | { readonly kind: 'no-agents' };

/** @throws AppError `spec/invalid`, `cli/skill-missing`, `cli/image-missing` and its like, `admit/unsupported-work` */
export async function compileRun(file: string, options: CompileOptions, context: Machine): Promise<CompiledRun> {
  return await acceptSpec(await loadSpec(file, { ...options, allow: options.images.allow }, context), options, context);
}

/** Like `compileRun`, for the text from which an earlier run was compiled. */
export async function compileAgain(
  { path, text }: { readonly path: string | null; readonly text: string },
  baseDir: string,
  options: CompileOptions,
  context: Machine,
): Promise<CompiledRun> {
  const { loadText } = await import('../../domain/language/load.ts');
  const file = path ?? STDIN_NAME;
  const { parts, ...compiled } = await loadText(text, file, {
    baseDir,
    params: options.params,
    readStepMachine: limitReader(readStepMachine, context),
    readSpec: limitReader(createReadSpec(listSpecRoots(baseDir, options.images.allow, context)), context),
    listFiles,
    ...(options.settings === null ? {} : { settings: options.settings }),
  });
  const sources = new Map([...parts, [file, text]]);
  const loaded = { ...compiled, file, path, text, spec: text, baseDir, sources, missingParams: [] };
  return await acceptSpec({ ...loaded, mountPlaces: new Map() }, options, context);
}

/** Like `compileRun`, for a plan that is compiled. The run has no source. */
export async function acceptPlan(
  plan: Plan,
  baseDir: string,
  options: Omit<CompileOptions, 'params' | 'settings' | 'mode'>,
  context: Machine,
): Promise<Omit<CompiledRun, 'source'>> {
  const loaded: LoadedSpec = {
    file: 'plan',
    path: null,
    text: null,
    spec: null,
    plan,
    baseDir,
    diagnostics: [],
    sources: new Map(),
    mountPlaces: new Map(),
    appliedSettings: createUnapplied(),
    triggers: [],
    notify: NO_NOTIFY,
    deployProblems: [],
    missingParams: [],
  };
  const { source: _, ...accepted } = await acceptSpec(
    loaded,
    { ...options, params: {}, settings: null, mode: null },
    context,
  );
  return accepted;
}

async function acceptSpec(
  loaded: LoadedSpec,
  { params, settings, mode, mock, mockAgents, images: { given, allow }, settlePlan, onNotice }: CompileOptions,
  context: Machine,
): Promise<CompiledRun> {
  const { file, path, text, plan: loadedPlan, baseDir, diagnostics, sources, mountPlaces, appliedSettings } = loaded;
  await onNotice({ kind: 'diagnostics', diagnostics, sources, isRefused: loadedPlan === null });
  if (loadedPlan === null) throw new AppError('usage', 'spec/invalid', `\`${file}\` is not a spec that can run`);
  if (settings !== null) await onNotice({ kind: 'settings', settings, applied: appliedSettings });
  const plan = settlePlan === undefined ? loadedPlan : settlePlan(loadedPlan);
  const read = mode === 'mock' ? withMockSandboxes(plan) : plan;
  const request = mock(read);
  const withoutSkills = applyMockAgents(applyMocks(read, request), mockAgents);
  const arePlayed = mockAgents === true && listMockAgentStages(withoutSkills).length > 0;
  if (mockAgents === true && !arePlayed) await onNotice({ kind: 'no-agents' });
  const places = { baseDir, allow };
  await refuseMissingAgentSkills(withoutSkills, places, mountPlaces, context);
  const texts = await Promise.all([
    withAgentSkillFiles(withoutSkills, places, context),
    withAgentSkillFiles(read, places, context),
  ]);
  refuseUnsupported(...texts);
  const { plans, images } = await withImages(texts, { baseDir, given, allow, named: mountPlaces }, context);
  const [chosen, written] = plans;
  const isKept = text !== null && Buffer.byteLength(text) <= SOURCE_BYTES;
  return {
    plan: chosen,
    written,
    mock: request,
    mockAgents: mockAgents === 'kept' ? null : arePlayed,
    images,
    baseDir,
    places: mountPlaces,
    triggers: loaded.triggers,
    notify: loaded.notify,
    deployProblems: loaded.deployProblems,
    source: { path, text: isKept ? text : null, params, mode, ...(settings === null ? {} : { settings }) },
  };
}

/** Admission would refuse it too, after everything that the machine lacks was fetched and started. */
function refuseUnsupported(plan: Plan, written: Plan): void {
  const parts = findUnsupportedParts(plan, 'read');
  const canMock = new Set(written.stages.flatMap(({ id, mock }) => (mock === undefined ? [] : [id])));
  const isMockable = parts.every(({ stage }) => canMock.has(stage));
  if (parts.length > 0)
    throw new AppError(
      'usage',
      'admit/unsupported-work',
      describeUnsupported(parts),
      canBePlayed(plan)
        ? 'Try the spec with an agent that needs no model: voidbox run FILE --mock-agents'
        : isMockable
          ? 'Try the spec with the `mock` of these stages: voidbox run FILE --mock'
          : 'Remove these parts; `voidbox validate FILE` checks the whole spec without running it',
    );
}

/** Checks whether this build supports the plan once the mock agent plays its agents. */
function canBePlayed(plan: Plan): boolean {
  const made = withMockAgents(plan);
  return 'plan' in made && findUnsupportedParts(made.plan, 'read').length === 0;
}

function applyMockAgents(plan: Plan, mockAgents: boolean | 'kept'): Plan {
  if (mockAgents === false) return plan;
  const made = withMockAgents(plan);
  if ('plan' in made) return made.plan;
  return plan;
}

function applyMocks(plan: Plan, request: MockRequest | null): Plan {
  const made = withMocks(plan, request);
  if ('plan' in made) return made.plan;
  throw createUsageError(`the run cannot be mocked: ${made.problems.join('; ')}`);
}

/** The user must type the flag, because it lowers the isolation that the spec demands. */
function withMockSandboxes(plan: Plan): Plan {
  return {
    ...plan,
    scopes: plan.scopes.map((scope) => ({ ...scope, sandbox: { ...scope.sandbox, mode: 'mock', isolation: 'none' } })),
  };
}
