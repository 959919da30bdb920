"""The backend contract catches faults: each backend here has one, and fails the cases named beside it and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import faulty_executors as executors
import faulty_samplers as samplers
import faulty_trees as trees
import pytest
from contract_cases import Given, cases_of, failed_cases, fails
from formula_backend import VOCAB, FormulaBackend, FormulaExecutor

from sgframe.interfaces.backend import Backend, Capabilities, ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.testing import BackendContract, Driver

SPEC = ExecutorSpec(
    Checkpoint("formula", "", 2048, VOCAB, ()), "float32", 8, max_step_tokens=128, context_length=128, kv_slots=512
)


class ExcusesItselfAlthoughUsable(FormulaBackend):
    def probe(self) -> Capabilities:
        return replace(super().probe(), reason="there is no such device")


class FoundNoDeviceAndSaysNothing(FormulaBackend):
    def probe(self) -> Capabilities:
        return Capabilities(usable=False)


MUTANTS: dict[type[Any], set[str]] = {
    ExcusesItselfAlthoughUsable: {"test_a_probe_says_what_there_is_or_what_is_missing"},
    FoundNoDeviceAndSaysNothing: {"test_a_probe_says_what_there_is_or_what_is_missing"},
    executors.AnnouncesAnotherPageSize: {"test_load_announces_what_was_asked_for"},
    executors.IgnoresTheMemoryForKV: {"test_twice_the_memory_for_kv_gives_twice_the_slots"},
    executors.ClosesOnce: {"test_closing_twice_is_harmless"},
    executors.AdmitsWhereItReleased: {"test_several_rows_end_and_begin_in_one_step"},
    executors.TakesARetractedRowToBeThereStill: {"test_a_retracted_row_resumes_where_it_stopped"},
    executors.LeavesTheTailOfALongRow: {
        "test_a_released_row_leaves_nothing_to_the_next",
        "test_a_tree_scores_each_path_as_if_it_were_alone",
    },
    executors.CountsFromTheCachedPrefix: {
        "test_a_cached_part_of_the_prompt_changes_no_score",
        "test_a_cached_prefix_changes_nothing",
        "test_a_row_starts_from_what_another_computes_in_the_same_step",
        "test_a_seed_gives_the_same_tokens_from_a_cached_prefix",
        "test_a_shared_prefix_serves_rows_that_go_on_differently",
        "test_cached_nodes_are_not_scored_again",
        "test_what_is_kept_of_a_row_is_without_its_wrong_guesses",
    },
    executors.LendsAPrefixOnce: {
        "test_a_cached_prefix_changes_nothing",
        "test_a_shared_prefix_serves_rows_that_go_on_differently",
    },
    executors.ForgetsRewrites: {
        "test_a_rewritten_row_reads_the_other_copy",
        "test_a_tree_reads_the_other_copy_of_a_rewritten_prompt",
        "test_several_rows_are_rewritten_in_one_step",
    },
    executors.RewritesFromTheStart: {
        "test_a_rewritten_row_reads_the_other_copy",
        "test_a_tree_reads_the_other_copy_of_a_rewritten_prompt",
    },
    executors.RewritesOneRowAStep: {"test_several_rows_are_rewritten_in_one_step"},
    executors.ForgetsForcedTokens: {
        "test_several_rows_are_forced_in_one_step",
        "test_tokens_may_be_forced_after_one_that_is_still_to_come",
        "test_tokens_that_are_forced_count_like_those_that_are_sampled",
    },
    executors.ForcesOneRowAStep: {"test_several_rows_are_forced_in_one_step"},
    executors.ForcesBeforeWhatIsStillToCome: {"test_tokens_may_be_forced_after_one_that_is_still_to_come"},
    executors.KeepsFourChunks: {"test_the_cut_of_a_prefill_changes_nothing"},
    executors.AttendsRowByRow: {"test_a_row_starts_from_what_another_computes_in_the_same_step"},
    executors.ComputesThreeRows: {
        "test_guesses_of_some_rows_change_nothing_for_the_others",
        "test_neighbours_in_the_batch_change_nothing",
        "test_several_rows_end_and_begin_in_one_step",
        "test_trees_beside_a_decode_and_a_prefill_change_none_of_them",
    },
    executors.DecodesNothingBesideAPrefill: {
        "test_a_prefill_beside_a_decode_changes_neither",
        "test_a_result_may_come_after_its_row_was_given_away",
        "test_a_rewritten_row_reads_the_other_copy",
        "test_a_row_starts_from_what_another_computes_in_the_same_step",
        "test_guesses_of_some_rows_change_nothing_for_the_others",
        "test_several_rows_are_rewritten_in_one_step",
        "test_several_rows_end_and_begin_in_one_step",
        "test_trees_beside_a_decode_and_a_prefill_change_none_of_them",
    },
    executors.DecodesNoMoreThanAHundredTokens: {"test_a_long_output_is_computed_like_a_prompt"},
    executors.StopsAtALostRow: {"test_a_row_without_a_token_goes_on_and_harms_no_other"},
    executors.LearnsItsTokensLate: {
        "test_a_result_may_come_after_its_row_was_given_away",
        "test_a_row_may_end_with_its_guesses_in_flight",
        "test_a_row_without_a_token_goes_on_and_harms_no_other",
        "test_a_seed_gives_the_same_tokens_ahead_of_results",
        "test_guesses_may_follow_a_token_that_is_still_to_come",
        "test_masks_may_come_once_the_step_has_begun",
        "test_rows_may_go_on_in_another_order_or_wait",
        "test_the_next_step_may_come_before_the_result_of_the_last",
        "test_tokens_may_be_forced_after_one_that_is_still_to_come",
    },
    executors.DropsTheResultOfAReleasedRow: {"test_a_result_may_come_after_its_row_was_given_away"},
    executors.RelaysTokensByPlace: {
        "test_a_result_may_come_after_its_row_was_given_away",
        "test_a_row_without_a_token_goes_on_and_harms_no_other",
        "test_guesses_may_follow_a_token_that_is_still_to_come",
        "test_masks_may_come_once_the_step_has_begun",
        "test_rows_may_go_on_in_another_order_or_wait",
        "test_tokens_may_be_forced_after_one_that_is_still_to_come",
    },
    samplers.CountsStepsFromOne: {"test_only_rows_whose_last_token_is_computed_are_sampled"},
    samplers.TellsRowsInTheirOrder: {
        "test_guesses_of_some_rows_change_nothing_for_the_others",
        "test_only_rows_whose_last_token_is_computed_are_sampled",
        "test_trees_beside_a_decode_and_a_prefill_change_none_of_them",
    },
    samplers.SamplesWhoWantsNoToken: {
        "test_a_row_that_wants_no_token_gets_none",
        "test_a_step_may_sample_nothing",
    },
    samplers.NeedsSomebodyToSample: {
        "test_a_step_may_sample_nothing",
        "test_prompt_logprobs_cover_each_prompt_token_but_the_first_once",
    },
    samplers.MasksByPlace: {
        "test_masks_go_by_row_and_leave_the_others_free",
        "test_masks_may_come_once_the_step_has_begun",
    },
    samplers.ForbidsAllWithoutAMask: {"test_masks_for_no_row_leave_all_free"},
    samplers.AllowsWhatIsBeyondAMask: {"test_tokens_beyond_the_end_of_a_mask_are_forbidden"},
    samplers.TakesAnythingWhereNothingIsAllowed: {
        "test_a_mask_that_leaves_nothing_gives_minus_one_to_its_row",
        "test_a_row_without_a_token_goes_on_and_harms_no_other",
    },
    samplers.LetsAMaskPassOnce: {
        "test_a_draw_obeys_a_mask",
        "test_a_mask_leaves_only_what_it_allows",
        "test_a_mask_that_leaves_nothing_gives_minus_one_to_its_row",
        "test_a_row_without_a_token_goes_on_and_harms_no_other",
        "test_masks_go_by_row_and_leave_the_others_free",
        "test_masks_may_come_once_the_step_has_begun",
        "test_tokens_beyond_the_end_of_a_mask_are_forbidden",
    },
    samplers.DropsMasksOfAStepAhead: {"test_masks_may_come_once_the_step_has_begun"},
    samplers.DrawsWithoutAMask: {"test_a_draw_obeys_a_mask"},
    samplers.TellsLogprobsUnasked: {"test_logprobs_are_absent_when_nobody_asks"},
    samplers.GivesOneLikeliestMore: {
        "test_a_long_output_is_computed_like_a_prompt",
        "test_logprobs_are_the_model_s_own",
        "test_logprobs_come_in_the_number_asked",
    },
    samplers.TellsLogprobsOfWhatItDrewFrom: {"test_logprobs_are_the_model_s_own"},
    samplers.LosesAPromptLogprobAtACut: {"test_prompt_logprobs_cover_each_prompt_token_but_the_first_once"},
    samplers.TellsPromptLogprobsOfOneRow: {"test_prompt_logprobs_of_several_rows_come_in_one_step"},
    samplers.TellsPromptLogprobsThatNobodyWants: {"test_prompt_logprobs_start_where_they_are_still_wanted"},
    samplers.DrawsWithOneSeed: {
        "test_a_draw_obeys_a_mask",
        "test_seeds_draw_different_tokens",
        "test_top_k_leaves_the_k_likeliest",
    },
    samplers.DrawsTheSameAtEachPosition: {"test_positions_draw_differently"},
    samplers.DrawsByPlaceInTheBatch: {
        "test_a_seed_gives_the_same_tokens_ahead_of_results",
        "test_a_seed_gives_the_same_tokens_in_any_company",
    },
    samplers.DrawsBySteps: {
        "test_a_seed_gives_the_same_tokens_after_a_retraction",
        "test_a_seed_gives_the_same_tokens_however_a_prefill_is_cut",
        "test_right_guesses_are_kept_up_to_the_first_wrong_one",
    },
    samplers.DrawsByWhatItComputed: {
        "test_a_seed_gives_the_same_tokens_from_a_cached_prefix",
        "test_right_guesses_are_kept_up_to_the_first_wrong_one",
    },
    samplers.DrawsByLengthOfOutput: {"test_a_draw_counts_its_position_from_the_start_of_the_prompt"},
    samplers.TakesEarlierOutputForPrompt: {"test_what_was_written_before_a_retraction_counts"},
    samplers.PenalisesWhatWasToldOnly: {"test_a_seed_gives_the_same_tokens_ahead_of_results"},
    samplers.IgnoresTopP: {"test_what_leaves_one_token_is_greedy"},
    samplers.IgnoresMinP: {"test_what_leaves_one_token_is_greedy"},
    samplers.KeepsOneMoreThanTopK: {
        "test_top_k_leaves_the_k_likeliest",
        "test_what_leaves_one_token_is_greedy",
    },
    samplers.IgnoresBias: {
        "test_a_bias_is_added",
        "test_frequency_counts_each_time",
        "test_presence_counts_once",
        "test_what_was_written_before_a_retraction_counts",
        "test_what_was_written_is_penalised_and_the_prompt_is_not",
    },
    samplers.IgnoresPresence: {"test_what_was_written_is_penalised_and_the_prompt_is_not"},
    samplers.CountsPresenceEachTime: {"test_presence_counts_once"},
    samplers.CountsFrequencyOnce: {"test_frequency_counts_each_time"},
    samplers.PenalisesThePromptToo: {
        "test_frequency_counts_each_time",
        "test_what_was_written_is_penalised_and_the_prompt_is_not",
    },
    samplers.RepeatsTheOutputFreely: {"test_repetition_counts_prompt_and_output_alike"},
    trees.AttendsToEveryNodeBefore: {
        "test_a_cached_part_of_the_prompt_changes_no_score",
        "test_a_prompt_of_one_token_bears_a_tree",
        "test_a_tree_may_be_cut_anywhere",
        "test_a_tree_reads_the_other_copy_of_a_rewritten_prompt",
        "test_a_tree_scores_each_path_as_if_it_were_alone",
        "test_scores_come_with_the_token_that_they_follow",
        "test_trees_beside_a_decode_and_a_prefill_change_none_of_them",
    },
    trees.NumbersNodesAlongTheRow: {
        "test_a_cached_part_of_the_prompt_changes_no_score",
        "test_a_prompt_of_one_token_bears_a_tree",
        "test_a_tree_may_be_cut_anywhere",
        "test_a_tree_reads_the_other_copy_of_a_rewritten_prompt",
        "test_a_tree_scores_each_path_as_if_it_were_alone",
        "test_scores_come_with_the_token_that_they_follow",
        "test_trees_beside_a_decode_and_a_prefill_change_none_of_them",
    },
    trees.TakesACutForTheRoot: {
        "test_a_tree_may_be_cut_anywhere",
        "test_a_tree_reads_the_other_copy_of_a_rewritten_prompt",
        "test_cached_nodes_are_not_scored_again",
        "test_scores_come_with_the_token_that_they_follow",
        "test_trees_beside_a_decode_and_a_prefill_change_none_of_them",
    },
    trees.NeedsANode: {"test_a_tree_without_nodes_asks_for_what_follows_the_prompt"},
    trees.ScoresNothingAfterTheFirstToken: {"test_a_prompt_of_one_token_bears_a_tree"},
    trees.TakesPlacesToBeInTurn: {"test_only_what_is_asked_for_is_scored"},
    trees.TellsScoresAgain: {
        "test_cached_nodes_are_not_scored_again",
        "test_scores_come_with_the_token_that_they_follow",
    },
    trees.TellsAllScoresInTheLastStep: {
        "test_cached_nodes_are_not_scored_again",
        "test_scores_come_with_the_token_that_they_follow",
    },
    trees.ScoresCachedNodes: {"test_cached_nodes_are_not_scored_again"},
    trees.ReadsItsOwnCopyOnce: {"test_a_tree_reads_the_other_copy_of_a_rewritten_prompt"},
    trees.SharesOneTree: {"test_trees_beside_a_decode_and_a_prefill_change_none_of_them"},
    trees.LeavesItsTreeToTheNextRow: {"test_a_released_tree_leaves_nothing_to_the_next_row"},
    trees.KeepsEveryGuess: {
        "test_guesses_may_follow_a_token_that_is_still_to_come",
        "test_guesses_may_follow_guesses",
        "test_guesses_of_some_rows_change_nothing_for_the_others",
        "test_logprobs_come_for_the_tokens_that_are_kept",
        "test_right_guesses_are_kept_up_to_the_first_wrong_one",
        "test_what_is_kept_of_a_row_is_without_its_wrong_guesses",
    },
    trees.KeepsOneGuessAtMost: {
        "test_guesses_may_follow_a_token_that_is_still_to_come",
        "test_guesses_may_follow_guesses",
        "test_guesses_of_some_rows_change_nothing_for_the_others",
        "test_logprobs_come_for_the_tokens_that_are_kept",
        "test_right_guesses_are_kept_up_to_the_first_wrong_one",
    },
    trees.VerifiesOnce: {"test_guesses_may_follow_guesses"},
    trees.MixesUpGuesses: {
        "test_guesses_of_some_rows_change_nothing_for_the_others",
        "test_logprobs_come_for_the_tokens_that_are_kept",
    },
    trees.ForgetsGuessesOfAStepAhead: {"test_guesses_may_follow_a_token_that_is_still_to_come"},
    trees.TakesGuessesBackFromWhoeverHasTheRow: {"test_a_row_may_end_with_its_guesses_in_flight"},
    trees.KeepsTheKVOfAWrongGuess: {
        "test_guesses_may_follow_a_token_that_is_still_to_come",
        "test_guesses_may_follow_guesses",
        "test_guesses_of_some_rows_change_nothing_for_the_others",
        "test_logprobs_come_for_the_tokens_that_are_kept",
        "test_right_guesses_are_kept_up_to_the_first_wrong_one",
        "test_what_is_kept_of_a_row_is_without_its_wrong_guesses",
    },
    trees.TellsTheLogprobsOfOneGuess: {"test_logprobs_come_for_the_tokens_that_are_kept"},
}


class Contract(BackendContract):
    def __init__(self, backend: Backend) -> None:
        self.backend_under_test = backend

    def make(self) -> Backend:
        return self.backend_under_test


def made(kind: type[Any]) -> FormulaBackend:
    return kind(FormulaExecutor) if issubclass(kind, FormulaBackend) else FormulaBackend(kind)


def given(backend: Backend) -> Given:
    def give(names: list[str]) -> dict[str, Any]:
        if names and not backend.probe().usable:
            pytest.skip("as the contract's fixtures do")
        known = {"backend": backend, "spec": SPEC}
        return {name: known[name] if name in known else Driver(backend.executor(), SPEC) for name in names}

    return give


def name_of(kind: type[Any]) -> str:
    return kind.__name__


@pytest.mark.parametrize("kind", MUTANTS, ids=name_of)
def test_a_fault_fails_its_cases(kind: type[Any]) -> None:
    backend = made(kind)
    assert {case for case in MUTANTS[kind] if fails(Contract(backend), case, given(backend))} == MUTANTS[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", MUTANTS, ids=name_of)
def test_a_fault_fails_no_other_case(kind: type[Any]) -> None:
    backend = made(kind)
    assert failed_cases(Contract(backend), given(backend)) == MUTANTS[kind]


def test_every_case_catches_a_fault() -> None:
    assert set(cases_of(BackendContract)) == set().union(*MUTANTS.values())


def test_a_sound_backend_fails_nothing() -> None:
    backend = FormulaBackend(FormulaExecutor)
    assert failed_cases(Contract(backend), given(backend)) == set()
