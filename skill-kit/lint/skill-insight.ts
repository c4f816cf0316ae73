/** The facts that the source gives about one skill. Without the source, functions are unknown. */
export interface SkillInsight {
  /** Names that the step's `next` function returns. */
  targetsOf(step: string): { readonly names: readonly string[]; readonly isComplete: boolean } | null;
  /** Options of the questions in its prompt; null: the prompt was not found. */
  asksOf(step: string): readonly (readonly string[] | null)[] | null;
}
