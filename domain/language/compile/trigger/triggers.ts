/** Compiles `on` of a spec to the triggers of a deployment. */
import { DEBOUNCE_DEFAULTS, RATE_DEFAULTS, TRIGGER_LIMITS } from '../../../delivery/trigger-defaults.ts';
import { API_TRIGGER, DELIVERY_KEPT_MS } from '../../../delivery/delivery.ts';
import { DEFAULT_DEDUPE_MS, type Dedupe, type Trigger } from '../../../delivery/trigger.ts';
import type { Plan } from '../../../plan/plan.ts';
import { waitOf } from '../../../plan/work.ts';
import { createMapping } from '../../../units/mapping.ts';
import { quote } from '../../../units/quote.ts';
import type { CheckTriggerExpressions } from '../../expression/check-trigger.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Spec } from '../../read/spec.ts';
import type { Located } from '../../text/tree.ts';
import { compileSource } from './source.ts';
import { TriggerTexts } from './texts.ts';

type TriggerSpec = Spec['on'][number];

export interface TriggerContext {
  /** Null: a mistake in the plan was reported. */
  readonly plan: Plan | null;
  readonly check: CheckTriggerExpressions;
  readonly problems: Problems;
}

/** Returns the triggers without mistakes; the others are reported. */
export function compileTriggers(spec: Spec, context: TriggerContext): readonly Trigger[] {
  const { problems } = context;
  const over = spec.on[TRIGGER_LIMITS.triggers];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `the spec has ${spec.on.length} triggers; at most ${TRIGGER_LIMITS.triggers} are allowed`,
      'join triggers of one source, with `when` and `params`, or split the spec',
    );
  const triggers = spec.on.slice(0, TRIGGER_LIMITS.triggers);
  checkNames(triggers, problems);
  return triggers.flatMap((trigger) => compileTrigger(trigger, spec, context) ?? []);
}

function checkNames(triggers: readonly TriggerSpec[], problems: Problems): void {
  const seen = new Set<string>();
  for (const { name } of triggers) {
    if (name.value === API_TRIGGER)
      problems.error(
        'spec/bad-value',
        name.at,
        `a trigger has the name ${quote(name.value)}, which deliveries of \`voidbox trigger\` have`,
        'rename it',
      );
    if (seen.has(name.value))
      problems.error(
        'spec/duplicate-name',
        name.at,
        `two triggers have the name ${quote(name.value)}`,
        'rename one of them',
      );
    seen.add(name.value);
  }
}

function compileTrigger(trigger: TriggerSpec, spec: Spec, context: TriggerContext): Trigger | null {
  const { problems, check } = context;
  const what = `trigger ${quote(trigger.name.value)}`;
  const texts = new TriggerTexts(check, what, problems);
  const source = compileSource(trigger, {
    what,
    checkStage: (stage, name) => checkStage(stage, name, spec, context),
    gaps: spec.gaps,
    problems,
  });
  const readKey = (holder: { readonly key: Located<string> | null } | null, name: string): string | null =>
    holder === null || holder.key === null ? null : texts.checkKey(holder.key, `\`${name}.key\``);
  const { debounce, batch, rate, order } = trigger;
  const compiled = {
    name: trigger.name.value,
    when: texts.checkCondition(trigger.when ?? trigger.run?.when ?? null),
    params: compileParams(trigger, what, spec, texts, problems),
    input: trigger.input === null ? null : texts.checkText(trigger.input, '`input`'),
    dedupe: compileDedupe(trigger, readKey),
    debounce:
      debounce === null
        ? null
        : {
            key: readKey(debounce, 'debounce'),
            delayMs: debounce.delayMs,
            maxDelayMs: debounce.maxDelayMs,
            take: debounce.take?.value ?? DEBOUNCE_DEFAULTS.take,
          },
    batch: batch === null ? null : { key: readKey(batch, 'batch'), size: batch.size, timeoutMs: batch.timeoutMs },
    rate:
      rate === null
        ? null
        : {
            key: readKey(rate, 'rate'),
            limit: rate.limit,
            perMs: rate.perMs,
            onLimit: rate.onLimit?.value ?? RATE_DEFAULTS.onLimit,
          },
    order: order === null ? null : { key: texts.checkKey(order.key, '`order.key`') },
  };
  const runWhen = trigger.run?.when ?? null;
  if (trigger.when !== null && runWhen !== null)
    problems.error(
      'spec/bad-value',
      runWhen.at,
      `${what} has \`when\` twice: at the trigger and in \`run\``,
      'join both conditions with `&&` at the trigger',
    );
  if (debounce !== null && debounce.maxDelayMs < debounce.delayMs)
    problems.error(
      'spec/bad-value',
      debounce.at,
      `\`debounce\` of ${what} has a \`max_delay\` that is shorter than its \`delay\``,
      'write a longer `max_delay`: the first delivery waits at most that long',
    );
  return source === null ? null : { ...compiled, source };
}

function compileDedupe(
  { dedupe, schedule }: TriggerSpec,
  readKey: (holder: TriggerSpec['dedupe'], name: string) => string | null,
): Dedupe {
  // A time of a schedule is one event for ever, and rows end after this time.
  const defaultMs = schedule === null ? DEFAULT_DEDUPE_MS : DELIVERY_KEPT_MS;
  return { key: readKey(dedupe, 'dedupe'), forMs: dedupe?.forMs ?? defaultMs };
}

function compileParams(
  { params }: TriggerSpec,
  what: string,
  spec: Spec,
  texts: TriggerTexts,
  problems: Problems,
): Readonly<Record<string, string>> {
  const declared = spec.params.map(({ name }) => name);
  for (const { name, at } of params)
    if (!declared.includes(name) && !spec.gaps.includes('params'))
      problems.error(
        'spec/undeclared-param',
        at,
        `\`params\` of ${what} has ${quote(name)}, which the spec does not declare${problems.suggest(name, declared)}`,
        `declare it: \`params: {${name}: …}\` at the top level, or remove it`,
      );
  return createMapping(params.map(({ name, value }) => [name, texts.checkText(value, `the parameter ${quote(name)}`)]));
}

function checkStage(stage: Located<string>, what: string, spec: Spec, { plan, problems }: TriggerContext): void {
  // The reader has already reported an empty name. Without a plan, stages of parts are not known.
  if (stage.value === '' || plan === null) return;
  const found = plan.stages.find(({ id }) => id === stage.value);
  if (found === undefined)
    problems.error(
      spec.kind === 'workflow' ? 'spec/unknown-step' : 'spec/unknown-box',
      stage.at,
      `${what} names the stage ${quote(stage.value)}, which does not exist${problems.suggest(
        stage.value,
        plan.stages.map(({ id }) => id),
      )}`,
      'name a stage of the spec, or remove it: the answer is then the output of the run',
    );
  else if (waitOf(found.work) !== null)
    problems.error(
      'spec/bad-value',
      stage.at,
      `${what} names ${quote(stage.value)}, which is a wait and has no output`,
      'name a stage with an output',
    );
}
