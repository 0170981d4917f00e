//! Lengths and courses, drawn with the block characters of Unicode.

/// From an eighth of a column to a whole one.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
/// Columns of growing height.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar as long as the part it stands for, in an eighth of a column.
pub fn bar(part: f64, columns: usize) -> String {
    let eighths = step(part, columns * EIGHTHS.len());
    let mut text: String = std::iter::repeat_n('█', eighths / 8).collect();
    text.extend((eighths % 8).checked_sub(1).map(|rest| EIGHTHS[rest]));
    text
}

/// A course: each column is the mean of what falls into it, drawn between 0 and the most.
pub fn sparkline(values: &[f64], columns: usize) -> String {
    let most = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let columns = columns.min(values.len()).max(1);
    let mean = |column: usize| {
        let (from, to) = (column * values.len() / columns, (column + 1) * values.len() / columns);
        let part = values.get(from..to).unwrap_or_default();
        part.iter().sum::<f64>() / part.len().max(1) as f64
    };
    let height = |value: f64| HEIGHTS[step(value / most, HEIGHTS.len()).saturating_sub(1)];
    if values.is_empty() {
        String::new()
    } else {
        (0..columns).map(|at| height(mean(at))).collect()
    }
}

/// A part between 0 and 1 in so many steps; what is none, is 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn step(part: f64, steps: usize) -> usize {
    // The cast stays within its bounds by itself, and makes 0 of what is not a number.
    ((part.clamp(0.0, 1.0) * steps as f64).round() as usize).min(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_part() {
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!((bar(0.28, 4).as_str(), bar(0.0, 4).as_str()), ("█▏", ""));
        assert_eq!((bar(f64::NAN, 4).as_str(), bar(7.0, 2).as_str()), ("", "██"));
    }

    #[test]
    fn a_course_is_drawn_from_nothing_to_the_most() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 4.0], 10), "▁▂▄█");
        assert_eq!(sparkline(&[0.0, 0.0, 4.0, 4.0], 2), "▁█");
        assert_eq!(sparkline(&[], 10), "");
        assert_eq!(sparkline(&[f64::NAN, f64::INFINITY, 0.0], 3).chars().count(), 3);
    }
}
