/**
 * Checks services, which run until their run is cancelled: no stage may wait for their end, and no limit may apply to
 * them.
 */
import { SERVICE_TIMEOUT_MS } from '../../plan/defaults.ts';
import type { Plan, StagePlan } from '../../plan/plan.ts';
import { isService, mockOf, partOf, listStagesBefore } from '../../plan/work.ts';
import { quote } from '../../units/quote.ts';

export interface ServiceProblem {
  /** The stage at which an author finds the problem in the spec. */
  readonly stage: string;
  readonly message: string;
  readonly remedy: string;
}

/**
 * Reports services within a list or a loop, and stages that wait for the end of a service: none of these would ever
 * continue.
 */
export function findServiceProblems({ stages, maxParallel }: Plan): readonly ServiceProblem[] {
  const byId = new Map(stages.map((stage) => [stage.id, stage]));
  if (!stages.some(({ work }) => isService(work))) return [];
  const endless = endlessStages(stages, byId);
  const problems = stages.flatMap((stage) => [...findRepeatedService(stage), ...findEndlessWaits(stage, endless)]);
  return problems.length > 0 ? problems : findCrowdedOut(stages, byId, maxParallel);
}

/**
 * Reports stages for which services leave no slot. Services hold their slots until the run ends, so a stage that has
 * not ended before they start may never get one.
 */
function findCrowdedOut(
  stages: readonly StagePlan[],
  byId: ReadonlyMap<string, StagePlan>,
  maxParallel: number,
): readonly ServiceProblem[] {
  const services = stages.filter(({ work }) => isService(work));
  if (services.length < maxParallel) return [];
  const before = new Set<string>();
  const reach = (stage: StagePlan): void => {
    for (const id of listStagesBefore(stage)) {
      const earlier = byId.get(id);
      if (earlier === undefined || before.has(id)) continue;
      before.add(id);
      reach(earlier);
    }
  };
  services.forEach(reach);
  const other = stages.find(
    ({ id, scope, work, after, finally: isLast }) =>
      scope !== null &&
      isLast !== true &&
      !isService(work) &&
      !before.has(id) &&
      after.every(({ on }) => on !== 'failure'),
  );
  const isTooMany = services.length > maxParallel;
  const crowded = isTooMany ? services[maxParallel]! : other;
  if (crowded === undefined) return [];
  return [
    {
      stage: crowded.id,
      message: `${services.length} services serve at the same time and \`max_parallel\` is ${maxParallel}: ${quote(crowded.id)} may never start`,
      remedy: `write \`max_parallel: ${services.length + (other === undefined ? 0 : 1)}\` or more`,
    },
  ];
}

function findRepeatedService({ id, work, of, visits }: StagePlan): readonly ServiceProblem[] {
  if (!isService(work)) return [];
  const remedy = 'move the service out of it, to a stage of the run itself';
  const createServiceProblems = (where: string, what: string): readonly ServiceProblem[] => [
    { stage: id, message: `${quote(id)} is a service within ${where}, so no ${what} would ever end`, remedy },
  ];
  if (of !== undefined) return createServiceProblems('`for_each`', 'item');
  return visits === undefined ? [] : createServiceProblems('a loop', 'visit');
}

function findEndlessWaits(stage: StagePlan, endless: ReadonlyMap<string, string>): readonly ServiceProblem[] {
  if (endless.has(stage.id)) return [];
  const edge = stage.after.find(({ stage: before, on }) => on !== 'failure' && endless.has(before));
  if (edge === undefined) return [];
  const service = endless.get(edge.stage)!;
  const through = edge.stage === service ? '' : `, a service of ${quote(edge.stage)}`;
  return [
    {
      stage: stage.id,
      message: `${quote(stage.id)} waits for the end of ${quote(service)}${through}, which runs until the run is cancelled: it would never start`,
      remedy: `remove \`mode: service\` of ${service} if it ends on its own, or do not wait for it: stages that run at the same time can reach it in the same VM`,
    },
  ];
}

/** Maps services, and ends of parts and loops that contain one, to the service. */
function endlessStages(
  stages: readonly StagePlan[],
  byId: ReadonlyMap<string, StagePlan>,
): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const seen = new Set<string>();
  const serviceIn = (id: string): string | null => {
    const known = found.get(id);
    if (known !== undefined) return known;
    const stage = byId.get(id);
    if (stage === undefined || seen.has(id)) return null;
    seen.add(id);
    const part = partOf(stage.work);
    const service = isService(stage.work)
      ? id
      : (part?.stages.map(serviceIn).find((held): held is string => held !== null) ?? null);
    if (service !== null) found.set(id, service);
    return service;
  };
  for (const { id } of stages) serviceIn(id);
  return found;
}

/**
 * Rejects service fields that the keys of a spec exclude. A plan sets `timeoutMs` for every stage, and only services
 * may have `SERVICE_TIMEOUT_MS`.
 */
export function findServicePlanProblems({ stages }: Plan): readonly string[] {
  return stages.flatMap(({ id, work, each, finally: isLast, timeoutMs }) => {
    const isEndless = timeoutMs === SERVICE_TIMEOUT_MS;
    if (!isService(work))
      return isEndless && mockOf(work) === null
        ? [`stage ${id} has the time limit of a service and is not a service`]
        : [];
    return [
      ...(isEndless
        ? []
        : [`stage ${id} is a service and has the time limit ${timeoutMs}; a service has ${SERVICE_TIMEOUT_MS}`]),
      ...(each === undefined ? [] : [`stage ${id} is a service and runs for each item`]),
      ...(isLast === true ? [`stage ${id} is a service and runs after all others`] : []),
    ];
  });
}
