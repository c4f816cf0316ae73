/** Whether a session that was begun with other code may continue with this code. */
import type { MigrationConfig } from './definition.ts';
import { skillAt } from './draft.ts';
import type { SkillFacts } from './facts.ts';
import { recordsOf } from './records.ts';
import { addressIn } from './reply.ts';
import { frameOf, type SessionState } from './state.ts';

export type Resumption =
  | { readonly kind: 'same' }
  | { readonly kind: 'migrate'; readonly migration: MigrationConfig }
  | { readonly kind: 'refused'; readonly message: string };

/** A code hash is only compared if both sides have one. */
export function canResume(facts: SkillFacts, migrations: readonly MigrationConfig[], state: SessionState): Resumption {
  if (state.skill !== facts.name) {
    return {
      kind: 'refused',
      message: `Session "${state.session}" belongs to skill "${state.skill}", not to "${facts.name}".`,
    };
  }
  const sameCode = state.codeHash === null || facts.codeHash === null || state.codeHash === facts.codeHash;
  if (state.version === facts.version && sameCode) return { kind: 'same' };
  const migration = migrations.find(({ from }) => from === state.version);
  if (migration !== undefined) return { kind: 'migrate', migration };
  const what = state.version === facts.version ? `other code of version ${state.version}` : `version ${state.version}`;
  return {
    kind: 'refused',
    message:
      `Session "${state.session}" of skill "${state.skill}" was begun with ${what}; this is version ${facts.version}` +
      `${facts.codeHash === null ? '' : ` (code ${facts.codeHash.slice(0, 12)})`}. ` +
      `Continue with the earlier code, start a new session, or declare \`migrations: [{ from: '${state.version}' }]\` in the skill.`,
  };
}

/**
 * Converts the session for the present version. Only the session's own skill is migrated, not its sub-skills.
 * @throws {Error} if the session is at a step or in a sub-skill that this version does not have
 */
export function migrate(
  facts: SkillFacts,
  state: SessionState,
  { renamedSteps = {}, stores }: MigrationConfig,
): SessionState {
  const renameStep = (step: string): string => (Object.hasOwn(renamedSteps, step) ? renamedSteps[step]! : step);
  const renameKeys = <T>(of: Readonly<Record<string, T>>): Record<string, T> =>
    Object.fromEntries(Object.entries(of).map(([key, value]) => [renameStep(key), value]));
  const root = frameOf(state, 0);
  // A sub-skill that was started on its own has its own steps and stores. The skill's migration does not cover them.
  if (root.skill.length > 0)
    return checkSubskills(facts, { ...state, version: facts.version, codeHash: facts.codeHash });
  const cursors = state.cursors.map((cursor) =>
    cursor.frame === 0 ? { ...cursor, step: renameStep(cursor.step) } : cursor,
  );
  const migrated = {
    ...root,
    visits: renameKeys(root.visits),
    last: renameKeys(root.last),
    stores: stores === undefined ? root.stores : stores(root.stores),
  };
  const records = [...recordsOf(state.records)].map((record) =>
    record.frame === 0 ? { ...record, step: renameStep(record.step) } : record,
  );
  return checkSubskills(facts, {
    ...state,
    version: facts.version,
    codeHash: facts.codeHash,
    cursors,
    groups: state.groups.map((group) => (group.frame === 0 ? { ...group, join: renameStep(group.join) } : group)),
    frames: state.frames.map((frame) => (frame.id === 0 ? migrated : frame)),
    records: { ...state.records, items: records, length: records.length },
  });
}

/** Returns the same state. @throws {Error} if it is at a step or in a sub-skill that this version does not have */
function checkSubskills(facts: SkillFacts, state: SessionState): SessionState {
  for (const { skill } of state.frames) {
    const gone = skill.findIndex(
      (name, depth) => !Object.hasOwn(skillAt(facts, skill.slice(0, depth)).subskills, name),
    );
    if (gone < 0) continue;
    throw new Error(
      `Session "${state.session}" runs the sub-skill "${skill.slice(0, gone + 1).join('/')}", which version ${facts.version} does not have. Register it, or start a new session.`,
    );
  }
  for (const cursor of state.cursors) {
    const { skill } = frameOf(state, cursor.frame);
    if (Object.hasOwn(skillAt(facts, skill).steps, cursor.step)) continue;
    const remedy =
      skill.length === 0
        ? 'name its successor in renamedSteps'
        : `keep it in the sub-skill "${skill.join('/')}", or start a new session`;
    throw new Error(
      `Session "${state.session}" is at step "${addressIn(state, cursor)}", which version ${facts.version} does not have; ${remedy}.`,
    );
  }
  return state;
}
