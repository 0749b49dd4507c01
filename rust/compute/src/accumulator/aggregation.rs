//! What can be computed of the values of a key.

/// What is computed per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    Count,
    /// Integers and floats; bools count as 0 and 1.
    Sum,
    /// Numbers, or texts, or byte strings.
    Min,
    Max,
    /// The sum divided by the count, a float.
    Mean,
    /// The first value of any kind.
    First,
    Last,
    /// How many different values; those that are equal in Python are one.
    CountDistinct,
    /// One quantile of numbers, or several.
    Quantile,
    Quantiles,
    /// The most frequent values, with how often they came.
    Top,
    /// Of numbers. The parameter of these three is by how much the count is lessened: 1 of a sample.
    Variance,
    Stddev,
    /// Of pairs of numbers, as the next two are.
    Covariance,
    Correlation,
    /// The line through pairs of y and x.
    Regression,
    /// Whether all bools are true, or one of them is.
    BoolAnd,
    BoolOr,
    /// Integers and bools, bit by bit.
    BitAnd,
    BitOr,
    BitXor,
    /// All values, of any kind, in the order in which they came.
    Array,
    /// How many different values, about.
    ApproxCountDistinct,
    /// One quantile of numbers, or several, about.
    ApproxQuantile,
    ApproxQuantiles,
}

impl Aggregation {
    /// As a user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::First => "first",
            Self::Last => "last",
            Self::CountDistinct => "count_distinct",
            Self::Quantile => "quantile",
            Self::Quantiles => "quantiles",
            Self::Top => "top",
            Self::Variance => "variance",
            Self::Stddev => "stddev",
            Self::Covariance => "covariance",
            Self::Correlation => "correlation",
            Self::Regression => "regression",
            Self::BoolAnd => "bool_and",
            Self::BoolOr => "bool_or",
            Self::BitAnd => "bit_and",
            Self::BitOr => "bit_or",
            Self::BitXor => "bit_xor",
            Self::Array => "array",
            Self::ApproxCountDistinct => "approx_count_distinct",
            Self::ApproxQuantile => "approx_quantile",
            Self::ApproxQuantiles => "approx_quantiles",
        }
    }

    /// The aggregation of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.name() == name)
    }

    pub const ALL: [Self; 25] = [
        Self::Count,
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Mean,
        Self::First,
        Self::Last,
        Self::CountDistinct,
        Self::Quantile,
        Self::Quantiles,
        Self::Top,
        Self::Variance,
        Self::Stddev,
        Self::Covariance,
        Self::Correlation,
        Self::Regression,
        Self::BoolAnd,
        Self::BoolOr,
        Self::BitAnd,
        Self::BitOr,
        Self::BitXor,
        Self::Array,
        Self::ApproxCountDistinct,
        Self::ApproxQuantile,
        Self::ApproxQuantiles,
    ];

    /// What it is where all values are kept anyway: then none need be about right alone.
    #[must_use]
    pub fn exact(self) -> Self {
        match self {
            Self::ApproxCountDistinct => Self::CountDistinct,
            Self::ApproxQuantile => Self::Quantile,
            Self::ApproxQuantiles => Self::Quantiles,
            other => other,
        }
    }

    /// Whether a value is a pair of numbers.
    pub fn is_of_pairs(self) -> bool {
        matches!(
            self,
            Self::Covariance | Self::Correlation | Self::Regression
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for each in Aggregation::ALL {
            assert_eq!(Aggregation::named(each.name()), Some(each));
        }
        assert_eq!(Aggregation::named("median"), None);
    }
}
